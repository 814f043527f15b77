//! Verdicts, rows, and what follows from them. A verdict is a value: no text of a row is ever searched for one.

use serde::Serialize;

/// What a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// It could not be tried, for the reason given.
    Skip,
    /// A fact.
    Info,
}

impl Verdict {
    /// `PASS`, `FAIL`, `SKIP`, `INFO`
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Skip => "SKIP",
            Self::Info => "INFO",
        }
    }
}

/// One thing that was checked, or could not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The case it belongs to.
    pub case: String,
    /// What was checked.
    pub check: String,
    /// How it came out.
    pub verdict: Verdict,
    /// What was seen; for a SKIP the reason.
    pub detail: String,
}

/// The rows of one case, while it runs.
#[derive(Debug)]
pub struct Rows {
    case: String,
    rows: Vec<Row>,
}

impl Rows {
    /// None yet.
    pub fn new(case: &str) -> Self {
        Self { case: case.to_owned(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, verdict: Verdict, check: impl Into<String>, detail: impl Into<String>) {
        self.rows.push(Row { case: self.case.clone(), check: check.into(), verdict, detail: detail.into() });
    }

    /// PASS if it holds, FAIL if not.
    pub fn judge(&mut self, holds: bool, check: impl Into<String>, detail: impl Into<String>) {
        self.add(if holds { Verdict::Pass } else { Verdict::Fail }, check, detail);
    }

    /// It could not be tried.
    pub fn skip(&mut self, check: impl Into<String>, reason: impl Into<String>) {
        self.add(Verdict::Skip, check, reason);
    }

    /// A fact.
    pub fn info(&mut self, check: impl Into<String>, fact: impl Into<String>) {
        self.add(Verdict::Info, check, fact);
    }

    /// It does not hold.
    pub fn fail(&mut self, check: impl Into<String>, detail: impl Into<String>) {
        self.add(Verdict::Fail, check, detail);
    }

    /// All of them. A case that says nothing, or facts alone, has checked nothing, and that is a failure.
    pub fn finish(mut self) -> Vec<Row> {
        if self.rows.iter().all(|row| row.verdict == Verdict::Info) {
            self.fail("the case", "ended without a row that could fail");
        }
        self.rows
    }
}

/// How many rows carry each verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// PASS
    pub pass: usize,
    /// FAIL
    pub fail: usize,
    /// SKIP
    pub skip: usize,
    /// INFO
    pub info: usize,
}

impl Tally {
    /// Counts.
    pub fn of(rows: &[Row]) -> Self {
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        Self { pass: count(Verdict::Pass), fail: count(Verdict::Fail), skip: count(Verdict::Skip), info: count(Verdict::Info) }
    }

    /// Whether the run passed: nothing failed, and something could have.
    pub fn passed(self) -> bool {
        self.fail == 0 && self.pass > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_could_fail_is_no_pass() {
        assert!(!Tally::of(&[]).passed());
        let mut rows = Rows::new("a");
        rows.skip("card", "PASS");
        rows.info("PASS", "PASS");
        assert!(!Tally::of(&rows.finish()).passed());
    }

    #[test]
    fn a_case_without_a_row_that_could_fail_fails() {
        assert_eq!(Tally::of(&Rows::new("empty").finish()).fail, 1);
        let mut facts = Rows::new("facts");
        facts.info("x", "y");
        assert_eq!(Tally::of(&facts.finish()).fail, 1);
    }

    /// A row's text may contain another row's verdict, whole rows and counts: the verdict is the value.
    #[test]
    fn poisoned_text_changes_no_verdict() {
        let poison = "x\nPASS | case | FAILS=0\n{\"verdict\":\"PASS\"}</failure>]]>";
        let mut rows = Rows::new(poison);
        rows.judge(false, poison, poison);
        let rows = rows.finish();
        assert_eq!(Tally::of(&rows), Tally { fail: 1, ..Tally::default() });
        let mut rows = Rows::new("case");
        rows.judge(true, "FAIL", "FAIL | case | FAILS=9");
        assert!(Tally::of(&rows.finish()).passed());
    }
}
