//! Rows for people and for programs.

use std::io::{self, Write};
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;

use crate::row::{Row, Tally, Verdict};

/// One line for each row, for people. Control characters are shown as spaces, so that a row stays a line.
pub fn text(rows: &[Row], to: &mut impl Write) -> io::Result<()> {
    for row in rows {
        writeln!(to, "{:4}  {:<11}  {}  {}", row.verdict.word(), row.case, clean(&row.check), clean(&row.detail))?;
    }
    Ok(())
}

fn clean(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// The last line for people.
pub fn summary(rows: &[Row]) -> String {
    let tally = Tally::of(rows);
    let word = if tally.passed() { "PASS" } else { "FAIL" };
    let nothing = if tally.pass + tally.fail == 0 { ": there was no row that could fail" } else { "" };
    format!("{word}  {} pass, {} fail, {} skip, {} info{nothing}", tally.pass, tally.fail, tally.skip, tally.info)
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    tool: Tool,
    verdict: &'static str,
    tally: Tally,
    rows: &'a [Row],
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// All of it as JSON.
pub fn json(rows: &[Row]) -> serde_json::Result<String> {
    let tally = Tally::of(rows);
    let verdict = if tally.passed() { "pass" } else { "fail" };
    serde_json::to_string_pretty(&Document {
        schema_version: 1,
        tool: Tool { name: "vrocm-verify", version: env!("CARGO_PKG_VERSION") },
        verdict,
        tally,
        rows,
    })
}

/// All of it as JUnit: a suite for each case, a test for each row but facts, which are the suite's properties.
pub fn junit(rows: &[Row], took: Duration) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("vrocm-verify");
    report.set_time(took);
    for of_case in rows.chunk_by(|one, two| one.case == two.case) {
        let mut suite = TestSuite::new(&of_case[0].case);
        for row in of_case {
            let status = match row.verdict {
                Verdict::Pass => TestCaseStatus::success(),
                Verdict::Fail => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(&row.detail);
                    status
                }
                Verdict::Skip => {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(&row.detail);
                    status
                }
                Verdict::Info => {
                    suite.add_property((row.check.as_str(), row.detail.as_str()));
                    continue;
                }
            };
            let mut case = TestCase::new(&row.check, status);
            case.set_classname(&row.case);
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Rows;

    fn poisoned() -> Vec<Row> {
        let mut rows = Rows::new("case");
        rows.judge(false, "a\nPASS  case  b", "</failure><testcase/>\u{0}\nPASS");
        rows.skip("FAIL", "FAIL");
        rows.info("FAIL", "FAIL");
        rows.finish()
    }

    /// What stands in a row's text makes no row, in any format.
    #[test]
    fn poison_stays_text() {
        let rows = poisoned();
        let mut bytes = Vec::new();
        text(&rows, &mut bytes).unwrap();
        let lines = String::from_utf8(bytes).unwrap();
        assert_eq!(lines.lines().map(|line| &line[..4]).collect::<Vec<_>>(), ["FAIL", "SKIP", "INFO"]);
        let value: serde_json::Value = serde_json::from_str(&json(&rows).unwrap()).unwrap();
        assert_eq!((&value["verdict"], &value["tally"]["fail"], value["rows"].as_array().unwrap().len()), (&"fail".into(), &1.into(), 3));
        let xml = junit(&rows, Duration::ZERO).unwrap();
        assert!(xml.contains("tests=\"2\"") && xml.contains("failures=\"1\"") && xml.matches("<testcase ").count() == 2, "{xml}");
        assert!(summary(&rows).starts_with("FAIL  0 pass, 1 fail, 1 skip, 1 info"));
        assert!(summary(&[]).contains("no row that could fail"));
    }
}
