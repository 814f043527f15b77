//! `JUnit` XML, what CI systems show as tests: a suite per file, a failing case per finding that denies, a passing one per other finding or clean file.

use std::collections::BTreeMap;
use std::io::{self, Write};

use quick_junit::{NonSuccessKind, Report as Xml, TestCase, TestCaseStatus, TestSuite};

use super::{Checks, Report};
use crate::finding::{Check, Finding, Severity};

pub(super) fn write(report: &Report, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
    let all = checks();
    let mut by_file: BTreeMap<&str, Vec<&Finding>> = report.subjects.files().into_iter().map(|file| (file, Vec::new())).collect();
    for finding in &report.findings {
        by_file.entry(&finding.file).or_default().push(finding);
    }
    let mut xml = Xml::new(format!("{} {}", report.program, report.subjects.audit()));
    for (file, findings) in by_file {
        let mut suite = TestSuite::new(file);
        suite.add_test_cases(cases(file, &findings, &all));
        xml.add_test_suite(suite);
    }
    if !report.unread.is_empty() {
        let mut suite = TestSuite::new("not audited");
        suite.add_test_cases(report.unread.iter().map(|what| {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(what.as_str());
            TestCase::new(what.as_str(), status)
        }));
        xml.add_test_suite(suite);
    }
    xml.serialize(&mut *out).map_err(io::Error::other)
}

/// The findings that deny, a case each; then what was found and does not deny, or one case that says nothing was.
fn cases(file: &str, findings: &[&Finding], all: &[&Check]) -> Vec<TestCase> {
    let mut cases: Vec<TestCase> = Vec::new();
    for finding in findings {
        let title = finding.symbol.as_ref().map_or_else(|| finding.check.to_string(), |symbol| format!("{}: {symbol}", finding.check));
        let status = if finding.severity == Severity::Deny {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(finding.check).set_message(finding.message.as_str());
            if let Some(check) = all.iter().find(|check| check.id == finding.check) {
                status.set_description(format!("{}\n\nwhy: {}\nfix: {}\nsource: {}", finding.message, check.why, check.fix, check.source));
            }
            status
        } else {
            TestCaseStatus::success()
        };
        let mut case = TestCase::new(title, status);
        case.set_classname(finding.check);
        if finding.severity != Severity::Deny {
            case.set_system_out(format!("{}: {}", finding.severity.word(), finding.message));
        }
        cases.push(case);
    }
    if cases.is_empty() {
        let mut case = TestCase::new("nothing found", TestCaseStatus::success());
        case.set_classname(file);
        cases.push(case);
    }
    cases
}
