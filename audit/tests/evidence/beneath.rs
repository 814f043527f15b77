//! What exports reach of HSA, by which ways, and what of it is all they reach.

use std::path::Path;

use crate::{BENEATH, HIP, audit, builds, hints, support, with};
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::subject::Beneath;
use vrocm_audit::evidence::{Subject, Verdict, read};

const POOL: &str = "hsa_amd_memory_pool_allocate";

fn of<'a>(subject: &'a Subject, name: &str) -> &'a Beneath {
    let export = subject.exports.iter().find(|export| export.name == name).unwrap_or_else(|| panic!("{name} is exported"));
    export.beneath.as_ref().unwrap_or_else(|| panic!("{name} has a body"))
}

/// The counts are in docs/measurements/evidence.md.
#[test]
fn allocators_lead_to_the_imports_that_a_preload_wins() {
    let document = std::fs::read_to_string("../docs/measurements/evidence.md").expect("the document");
    let mut rows = Vec::new();
    for (release, ..) in HIP {
        let Some((subject, _)) = audit(release, &hints()) else { return };
        assert!(!subject.sinks.is_empty() && subject.sinks.iter().all(|sink| sink.preload_wins), "{release}");
        let allocates = with(&subject, Verdict::Allocates);
        let reaches = allocates.iter().filter(|name| of(&subject, name).ways.iter().any(|way| way.import == POOL)).count();
        let known = subject.exports.iter().filter_map(|export| export.beneath.as_ref()).collect::<Vec<_>>();
        let any = known.iter().filter(|beneath| !beneath.ways.is_empty()).count();
        let followed: Vec<&str> = subject
            .exports
            .iter()
            .filter(|export| export.beneath.as_ref().is_some_and(|beneath| beneath.followed))
            .map(|export| export.name.as_str())
            .collect();
        rows.push(format!(
            "| {release} | {} | {reaches} of {} | {any} | {} of {} |",
            subject.sinks.len(),
            allocates.len(),
            followed.len(),
            known.len()
        ));
        // What is followed to its end is what looks things up in constants; nothing that allocates is.
        assert!(followed.contains(&"hipGetErrorString") && followed.contains(&"hipCreateChannelDesc"), "{release}: {followed:?}");
        assert!(followed.iter().all(|name| !allocates.contains(name) && of(&subject, name).ways.is_empty()), "{release}: {followed:?}");
        let malloc = of(&subject, "hipMalloc");
        assert!(!malloc.followed && malloc.not_followed.is_some() && malloc.ways.iter().any(|way| way.import == POOL && way.preload_wins));
        assert!(of(&subject, "hipEventQuery").ways.is_empty(), "{release}");
    }
    assert!(rows.iter().all(|row| document.contains(row)), "docs/measurements/evidence.md lacks:\n{}", rows.join("\n"));
}

/// Each function of this library shows one thing.
const SMALL: &str = "
extern int hsa_amd_memory_pool_allocate(void);
extern int hsa_amd_memory_pool_free(void);
extern void qsort(void *, unsigned long, unsigned long, int (*)(const void *, const void *));
int (*volatile pointer)(void);
static __attribute__((noinline)) int helper(int n) { return hsa_amd_memory_pool_allocate() + n; }
static int compare(const void *a, const void *b) { return helper(a == b); }
int hipMalloc(int n) { return helper(n) + 1; }
int hipFree(void) { return hsa_amd_memory_pool_free() + 1; }
int hipByPointer(void) { return pointer() + 1; }
int hipByCallback(void *at) { qsort(at, 4, 4, compare); return 0; }
int hipEither(int n) { return n ? helper(n) : pointer(); }
int hipSwitch(int n) {
    switch (n) {
    case 0: return hipFree() * 3; case 1: return n * 77 + 5; case 2: return hipFree() - 8; case 3: return n ^ 1234;
    case 4: return hipFree() * hipFree(); case 5: return n / 3; case 6: return n % 7; case 7: return hipFree() / 5; default: return 9;
    }
}
int hipNothing(int n) { return n * 3; }
";

#[test]
fn followed_means_that_no_call_leads_nobody_knows_where() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for options in [&["-O2"][..], &["-O1"], &["-O2", "-fno-plt"], &["-O2", "-fcf-protection=full"]] {
        let built = support::compile(folder.path(), SMALL, "small.so", &[&["-shared", "-fPIC"][..], options].concat());
        let reading = read::read(&Elf::open(&built).expect("opens"), Some(&hints()), BENEATH).expect("read");
        let found = |name: &str| {
            let export = reading.exports.iter().find(|export| export.name == name).expect("exported");
            let beneath = export.beneath.as_ref().expect("a body");
            (beneath.followed, beneath.ways.iter().map(|way| way.import.clone()).collect::<Vec<_>>())
        };
        assert_eq!(found("hipMalloc"), (true, vec![POOL.to_string()]), "{options:?}");
        assert_eq!(found("hipByCallback"), (true, vec![POOL.to_string()]), "{options:?}: whose address is made may be called");
        assert_eq!(found("hipByPointer"), (false, vec![]), "{options:?}");
        assert_eq!(found("hipEither"), (false, vec![POOL.to_string()]), "{options:?}");
        assert_eq!(found("hipFree"), (true, vec![]), "{options:?}");
        assert_eq!(found("hipNothing"), (true, vec![]), "{options:?}");
        assert_eq!(found("hipSwitch"), (true, vec![]), "{options:?}: a table of offsets stays inside");
    }
}

#[test]
fn a_step_through_a_table_says_of_how_many_it_is_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = builds::miniature(folder.path(), "g++", &["-O2"]) else { return };
    let reading = builds::read_miniature(&path);
    let export = reading.exports.iter().find(|export| export.name == "hipMemCreate").expect("exported");
    let way = &export.beneath.as_ref().expect("a body").ways[0];
    assert_eq!((way.import.as_str(), way.preload_wins), (POOL, true));
    assert!(way.path.iter().any(|step| step.one_of.is_some()), "{way:?}");
    let last = way.path.last().expect("a step");
    assert!(last.to.is_none() && last.to_string() == last.at.to_string(), "the call of the import itself: {last}");
    let sink = reading.sinks.iter().find(|sink| sink.name == POOL).expect("a sink");
    assert!(sink.reached_from.contains(&"hipMemCreate".to_string()) && !sink.reached_from.contains(&"hipEventQuery".to_string()));
}

/// One export on request, in text: every step of its ways.
#[test]
fn a_single_export_is_shown_with_its_ways() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = builds::miniature(folder.path(), "g++", &["-O2", "-Wl,-soname,libamdhip64.so.9"]) else { return };
    let run = |name: &str| {
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("evidence").arg(&path).args(["--export", name]).output();
        let done = program.expect("runs");
        (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned(), done.status.code())
    };
    let (text, ..) = run("hipMalloc");
    assert!(
        text.contains("hsa_amd_memory_pool_allocate, which a preload wins")
            && text.contains("(through a table")
            && text.contains("cannot be followed"),
        "{text}"
    );
    assert!(!text.contains("hipEventQuery"), "{text}");
    let (_, says, status) = run("hipNoSuchThing");
    assert!(status == Some(2) && says.contains("no exported function"), "{says}");
    assert!(Path::new(&path).exists());
}
