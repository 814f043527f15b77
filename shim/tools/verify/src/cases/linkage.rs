//! The library as a file, judged by the auditor: loads everywhere, exports exactly what it is to, leaves no door of the runtime at hand open.

use vrocm_audit::coverage::{self, Context, Label};
use vrocm_audit::elf::Elf;
use vrocm_audit::finding::{Finding, Severity};
use vrocm_audit::linkage::{self, Policy};
use vrocm_audit::manifest::{Acceptances, ClassTable, Family, InterposedList};

use super::{Bench, Case, Needs, Outcome, Rows, Trouble};

pub(super) const LINKAGE: Case = Case {
    name: "linkage",
    what: "the library loads everywhere, and its exports are exactly those of its table",
    needs: Needs::Nothing,
    checks: &[],
    run: link,
};

pub(super) const EXPORTS: Case = Case {
    name: "coverage",
    what: "no door of the runtimes at hand, or of the releases that the auditor knows, is left open",
    needs: Needs::Nothing,
    checks: &[],
    run: cover,
};

fn trouble(error: impl std::fmt::Display) -> Trouble {
    Trouble(error.to_string())
}

fn link(bench: &Bench, rows: &mut Rows) -> Outcome {
    let image = Elf::open(&bench.shim).map_err(trouble)?;
    let (policy, list) = (Policy::embedded().map_err(trouble)?, InterposedList::own().map_err(trouble)?);
    let (subject, findings) = linkage::audit(&image, &policy, Some(&list)).map_err(trouble)?;
    rows.info("build-id", subject.build_id.as_deref().unwrap_or("none"));
    let denied = denied(&findings);
    rows.judge(
        denied.is_empty(),
        "linkage rules",
        if denied.is_empty() { format!("{}, all rules", bench.shim.display()) } else { denied.join("; ") },
    );
    let exports = subject.exports.len();
    rows.judge(exports >= list.rows.len(), "exports", format!("{exports} exports, {} rows in the table", list.rows.len()));
    Ok(())
}

fn denied(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| finding.severity == Severity::Deny).map(|finding| format!("{}: {}", finding.check, finding.message)).collect()
}

fn cover(bench: &Bench, rows: &mut Rows) -> Outcome {
    let image = Elf::open(&bench.shim).map_err(trouble)?;
    let shim = coverage::Shim::from_library(&image, Some(InterposedList::own().map_err(trouble)?)).map_err(trouble)?;
    let (families, table) = (Family::embedded().map_err(trouble)?, ClassTable::embedded().map_err(trouble)?);
    let acceptances = Acceptances::embedded().map_err(trouble)?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date();
    let context = Context { table: &table, families: &families, acceptances: &acceptances, today };
    let mut runtimes: Vec<coverage::Runtime> = Vec::new();
    for runtime in &bench.runtimes {
        match coverage::Runtime::read(&runtime.library, &families) {
            Ok(read) => runtimes.push(read),
            Err(error) => rows.fail("the runtime's exports", error.to_string()),
        }
    }
    runtimes.extend(families.iter().flat_map(|family| family.builds.iter().map(|build| coverage::Runtime::from_build(build, family))));
    let (subjects, _) = coverage::audit(&runtimes, &shim, &context);
    for subject in subjects {
        let bad = [Label::Open, Label::NotBound, Label::Unclassified];
        let open: Vec<&str> = subject.exports.iter().filter(|export| bad.contains(&export.label)).map(|export| &*export.name).collect();
        // A door that the shim's documents name stays open: what is new is what fails.
        let (known, new): (Vec<&str>, Vec<&str>) = open.iter().partition(|name| DOCUMENTED.contains(name));
        let held = subject.denominators.must_interpose - open.len().min(subject.denominators.must_interpose);
        let release = subject.release.map_or_else(String::new, |release| format!(" {release}"));
        let mut detail = format!("{held} / {} (must_interpose) held", subject.denominators.must_interpose);
        for (word, names) in [("; open and documented", &known), ("; open", &new)] {
            if !names.is_empty() {
                detail.push_str(&format!("{word}: {}", names.join(" ")));
            }
        }
        rows.judge(new.is_empty(), format!("doors of {} {}{release}", subject.family, subject.file), detail);
    }
    Ok(())
}

/// docs/CHARGES.md, limits: a stack limit is scratch that ROCr takes for itself.
const DOCUMENTED: [&str; 1] = ["hipDeviceSetLimit"];
