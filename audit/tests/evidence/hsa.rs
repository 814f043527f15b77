//! ROCr: the tables behind variables, what hands out pointers, and why nothing there is said to allocate.

use crate::{families, family, support, with};
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::audit::Known;
use vrocm_audit::evidence::{self, Subject, Verdict};
use vrocm_audit::finding::{Finding, Severity};
use vrocm_audit::manifest::{Class, ClassTable, Hints};

const ROCR: [(&str, &str); 4] = [
    ("5.2.3", "libhsa-runtime64-1_5.2.3-3_amd64"),
    ("6.1.2", "libhsa-runtime64-1_6.1.2-3_amd64"),
    ("6.4.3", "libhsa-runtime64-1_6.4.3+dfsg-5_amd64"),
    ("7.2.4", "libhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64"),
];

fn audit(release: &str, package: &str, change: impl Fn(&mut Hints)) -> Option<(Subject, Vec<Finding>)> {
    let image = Elf::open(&support::file(package, "libhsa-runtime64.so.1")?).expect("opens");
    let families = families();
    let mut hints = family(&families, "hsa").hints().expect("read").expect("hsa has hints");
    change(&mut hints);
    let release = Some(release.parse().expect("a release"));
    let known = Known { family: family(&families, "hsa"), beneath: None, release, hints: Some(&hints) };
    let mut findings = Vec::new();
    let subject = evidence::audit(&image, known, &ClassTable::embedded().expect("a table"), &mut findings).expect("read");
    Some((subject, findings))
}

fn alarmed(subject: &Subject) -> Vec<&str> {
    subject.exports.iter().filter(|export| export.alarm.is_some()).map(|export| export.name.as_str()).collect()
}

/// The rows are in docs/measurements/evidence.md.
#[test]
fn what_the_two_rules_give_on_rocr() {
    let document = std::fs::read_to_string("../docs/measurements/evidence.md").expect("the document");
    let mut rows = Vec::new();
    for (release, package) in ROCR {
        let Some((subject, findings)) = audit(release, package, |_| {}) else { return };
        // No class of ROCr stands for memory, and three of four builds have no type information: nothing is said to allocate, nor to be harmless.
        assert!(subject.core.is_none() && with(&subject, Verdict::Allocates).is_empty() && with(&subject, Verdict::NothingSeen).is_empty());
        assert!(findings.iter().all(|finding| finding.severity == Severity::Note), "{release}: {findings:#?}");
        assert!(findings.iter().any(|finding| finding.check == "no-evidence") && findings.iter().all(|finding| finding.check != "empty-slot"));
        let of =
            |class: Class| subject.exports.iter().filter(|export| export.class == Some(class)).map(|export| export.name.as_str()).collect::<Vec<_>>();
        assert_eq!(with(&subject, Verdict::HandsOutPointers), of(Class::ProcAddress), "{release}");
        let stubs: usize = subject.tables.iter().map(|table| table.stubs).sum();
        let recovered: usize = subject.tables.iter().map(|table| table.recovered).sum();
        let near = alarmed(&subject);
        assert!(of(Class::DeviceAlloc).iter().all(|name| near.contains(name)), "{release}: {near:?}");
        // One seed alone: which of the other allocators of the caller's size does it lead to?
        let (one, _) = audit(release, package, |hints| hints.seeds = vec!["hsa_memory_allocate".into()]).expect("read before");
        let others: Vec<&str> = of(Class::DeviceAlloc).into_iter().filter(|name| *name != "hsa_memory_allocate").collect();
        let found = others.iter().filter(|name| alarmed(&one).contains(name)).count();
        let held_out = format!("{found} / {}", others.len());
        rows.push(format!(
            "| {release} | {recovered} of {stubs} | {} | {} | {held_out} |",
            subject.core_refused.as_deref().unwrap_or("-"),
            near.len()
        ));
    }
    assert!(rows.iter().all(|row| document.contains(row)), "docs/measurements/evidence.md lacks:\n{}", rows.join("\n"));
}

/// Four stubs through a table to which a variable points; the last slot stays empty.
const POINTED: &str = "
struct table { unsigned long version, step; int (*a)(int), (*b)(int), (*c)(int), (*d)(int); };
static const struct table *pointer;
static struct table first, second;
static int a_body(int n) { return n * 3; }
static int b_body(int n) { return n / 7; }
static int c_body(int n) { return n ^ 99; }
static __attribute__((noinline)) void fill(struct table *t) {
    t->version = sizeof *t << 32 | 1;
    t->a = a_body; t->b = b_body; t->c = c_body;
}
static __attribute__((noinline)) void set(const struct table *t) { pointer = t; }
__attribute__((constructor)) static void start(void) { fill(&first); set(&first); }
#ifdef TWO
void again(void) { fill(&second); set(&second); }
#endif
int hsa_a(int n) { return pointer->a(n); }
int hsa_b(int n) { return pointer->b(n); }
int hsa_c(int n) { return pointer->c(n); }
int hsa_d(int n) { return pointer->d(n); }
";

#[test]
fn a_table_behind_a_variable_is_read_or_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let read = |options: &[&str]| {
        let built = support::compile(folder.path(), POINTED, "pointed.so", &[&["-shared", "-fPIC"][..], options].concat());
        let hints = family(&families(), "hsa").hints().expect("read");
        evidence::read::read(&Elf::open(&built).expect("opens"), hints.as_ref(), crate::BENEATH).expect("read")
    };
    for options in [&["-O2"][..], &["-O1"], &["-Os", "-fcf-protection=full"]] {
        let reading = read(options);
        let (a, d) = (&reading.exports[0], reading.exports.iter().find(|export| export.name == "hsa_d").expect("exported"));
        assert_eq!((a.name.as_str(), a.slot.map(|slot| slot.0)), ("hsa_a", Some(0x10)), "{options:?}");
        assert!(a.body.is_some_and(|body| body != a.address), "{options:?}: {a:?}");
        assert_eq!((reading.tables[0].slots, reading.tables[0].filled, reading.tables[0].recovered), (4, 3, 3), "{options:?}");
        // Other code may fill it later: nobody says that a call jumps to address 0.
        assert!(d.body.is_none() && d.verdict == Verdict::Unknown && d.says.contains("later, if at all"), "{options:?}: {d:?}");
    }
    // Two tables that the variable may point to: neither is believed, and the stubs are their own bodies.
    let reading = read(&["-O2", "-DTWO"]);
    assert!(reading.tables.is_empty(), "{:?}", reading.tables);
    assert!(reading.exports.iter().filter(|export| export.name.starts_with("hsa_")).all(|export| export.body == Some(export.address)));
}
