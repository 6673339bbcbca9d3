//! Findings of a verification, as text and JSON.

use std::{fmt, path::Path};

use serde::Serialize;

use crate::{
    error::Error,
    table::table,
    text::{pretty_json, printable},
};
use gguf_types::{counted, words};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Unusual, but works.
    Warning,
    /// Wrong.
    Error,
}

impl Severity {
    /// The word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl From<gguf_container::Severity> for Severity {
    fn from(severity: gguf_container::Severity) -> Severity {
        match severity {
            gguf_container::Severity::Note => Severity::Note,
            gguf_container::Severity::Warning => Severity::Warning,
            gguf_container::Severity::Error => Severity::Error,
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// Code of the finding, for programs.
    pub code: &'static str,
    /// The facts.
    pub message: String,
}

impl Finding {
    /// An error.
    pub fn error(code: &'static str, message: impl fmt::Display) -> Finding {
        Finding { severity: Severity::Error, code, message: message.to_string() }
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl fmt::Display) -> Finding {
        Finding { severity: Severity::Warning, code, message: message.to_string() }
    }

    /// A note.
    pub fn note(code: &'static str, message: impl fmt::Display) -> Finding {
        Finding { severity: Severity::Note, code, message: message.to_string() }
    }
}

/// Meaning of a word in a report, for callers that color it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// A check that passed.
    Good,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Why nothing was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
    /// Short summary of the check.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Check {
    /// A check without findings.
    pub fn new(name: &'static str) -> Check {
        Check { name, not_checked: None, summary: String::new(), findings: Vec::new() }
    }

    /// Adds a finding.
    pub fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// The same check with the reason why it was skipped.
    pub fn skipped(self, why: &str) -> Check {
        Check { not_checked: Some(why.to_owned()), ..self }
    }

    /// Number of findings of a severity.
    pub(super) fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    fn state(&self) -> (&'static str, Tone) {
        match (self.count(Severity::Error), self.count(Severity::Warning), &self.not_checked) {
            (1.., _, _) => ("error", Tone::Error),
            (0, 1.., _) => ("warning", Tone::Warning),
            (0, 0, Some(_)) => ("-", Tone::Plain),
            _ => ("ok", Tone::Good),
        }
    }
}

/// Longest list of findings with one code.
const MAX_ALIKE: usize = 10;
/// Examples from a longer one.
const N_EXAMPLES: usize = 5;

/// All checks of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    file: String,
    errors: usize,
    warnings: usize,
    good: bool,
    checks: Vec<Check>,
    #[serde(skip)]
    strict: bool,
}

impl Report {
    /// A report without checks.
    pub fn new(file: &Path, strict: bool) -> Report {
        let file = file.display().to_string();
        Report { file, errors: 0, warnings: 0, good: true, checks: Vec::new(), strict }
    }

    /// Adds a check.
    pub fn push(&mut self, check: Check) {
        self.errors += check.count(Severity::Error);
        self.warnings += check.count(Severity::Warning);
        self.good = self.errors == 0 && (!self.strict || self.warnings == 0);
        self.checks.push(check);
    }

    /// Adds checks.
    pub fn extend(&mut self, checks: impl IntoIterator<Item = Check>) {
        checks.into_iter().for_each(|check| self.push(check));
    }

    /// The path of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The checks in their order.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// None are known.
    pub fn json(&self) -> Result<String, Error> {
        pretty_json(self)
    }

    /// A line for each check, then its findings.
    pub fn text(&self) -> String {
        self.text_with(|_, word| word.to_owned())
    }

    /// As [`Report::text`], with states and labels changed by `style`.
    pub fn text_with(&self, style: impl Fn(Tone, &str) -> String) -> String {
        let row = |check: &Check| {
            let what = check.not_checked.as_ref().map(|why| format!("not checked: {why}"));
            vec![
                check.name.to_owned(),
                check.state().0.to_owned(),
                what.unwrap_or_else(|| printable(&check.summary)),
            ]
        };
        let rows = table(&self.checks.iter().map(row).collect::<Vec<_>>(), &[]);
        let mut text = String::new();
        for (line, check) in rows.lines().zip(&self.checks) {
            let (state, tone) = check.state();
            text += &line.replacen(&format!("  {state}"), &format!("  {}", style(tone, state)), 1);
            text.push('\n');
        }
        text + &self.findings(Severity::Note, &style)
    }

    /// Findings because of which the file does not pass, with labels changed by `style`.
    pub fn failures_with(&self, style: impl Fn(Tone, &str) -> String) -> String {
        self.findings(if self.strict { Severity::Warning } else { Severity::Error }, &style)
    }

    /// Findings of at least this severity.
    fn findings(&self, least: Severity, style: &impl Fn(Tone, &str) -> String) -> String {
        let mut text = String::new();
        for check in &self.checks {
            let kind = |finding: &Finding| (finding.severity, finding.code);
            for (index, finding) in check.findings.iter().enumerate() {
                let Finding { severity, message, .. } = finding;
                if *severity < least {
                    continue;
                }
                let alike = || check.findings.iter().filter(|other| kind(other) == kind(finding));
                let n_before =
                    check.findings[..index].iter().filter(|other| kind(other) == kind(finding)).count();
                let n_alike = alike().count();
                let message = match n_before {
                    n if n_alike <= MAX_ALIKE || n < N_EXAMPLES => message.clone(),
                    N_EXAMPLES => {
                        words!("and {} more like these; [-json] lists all", n_alike - N_EXAMPLES).to_string()
                    }
                    _ => continue,
                };
                let tone = match severity {
                    Severity::Note => Tone::Plain,
                    Severity::Warning => Tone::Warning,
                    Severity::Error => Tone::Error,
                };
                let label = format!("{}:", severity.name());
                text += &format!("{} {}: {}\n", style(tone, &label), check.name, printable(&message));
            }
        }
        text
    }

    /// An error if the file did not pass.
    ///
    /// # Errors
    /// The number of errors and warnings.
    pub fn verdict(&self) -> Result<(), Error> {
        if self.good {
            Ok(())
        } else {
            Err(Error::new(format_args!(
                "{}: {}, {}",
                self.file,
                counted(self.errors, "error"),
                counted(self.warnings, "warning")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_kind_are_summarized() {
        for (n, lines, more) in [(10, 10, None), (14, 6, Some("warning: blocks: and 9 more like these"))] {
            let mut check = Check::new("blocks");
            (0..n).for_each(|i| {
                check.push(Finding::warning("zeros", format!("tensor `t{i}` is entirely zero")))
            });
            check.push(Finding::error("hole", "a hole"));
            let mut report = Report::new(Path::new("x"), false);
            report.push(check);
            let text = report.text();
            assert_eq!(text.matches("\nwarning: ").count(), lines, "{text}");
            assert!(
                more.is_none_or(|more| text.contains(more)) && text.contains("error: blocks: a hole"),
                "{text}"
            );
        }
    }
}
