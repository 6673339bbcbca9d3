//! Findings of a verification, as text and JSON.

use std::{fmt, path::Path};

use anstyle::Style;
use serde::Serialize;

use crate::{
    commands::shared::table::table,
    failure::Failure,
    ui::{ERROR, GOOD, WARNING, pretty_json, printable},
};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Odd, and works.
    Warning,
    /// Wrong.
    Error,
}

impl From<gguf::Severity> for Severity {
    fn from(severity: gguf::Severity) -> Severity {
        match severity {
            gguf::Severity::Note => Severity::Note,
            gguf::Severity::Warning => Severity::Warning,
            gguf::Severity::Error => Severity::Error,
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// Code of the finding, for programs.
    pub code: &'static str,
    pub message: String,
}

impl Finding {
    pub fn error(code: &'static str, message: impl fmt::Display) -> Finding {
        Finding { severity: Severity::Error, code, message: message.to_string() }
    }

    pub fn warning(code: &'static str, message: impl fmt::Display) -> Finding {
        Finding { severity: Severity::Warning, code, message: message.to_string() }
    }

    pub fn note(code: &'static str, message: impl fmt::Display) -> Finding {
        Finding { severity: Severity::Note, code, message: message.to_string() }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    /// Why nothing was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
    /// Short summary of the check.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    pub findings: Vec<Finding>,
}

impl Check {
    pub fn new(name: &'static str) -> Check {
        Check { name, not_checked: None, summary: String::new(), findings: Vec::new() }
    }

    pub fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// The same with the reason why it was not made.
    pub fn skipped(self, why: &str) -> Check {
        Check { not_checked: Some(why.to_owned()), ..self }
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    fn state(&self) -> (&'static str, Style) {
        match (self.count(Severity::Error), self.count(Severity::Warning), &self.not_checked) {
            (1.., _, _) => ("error", ERROR),
            (0, 1.., _) => ("warning", WARNING),
            (0, 0, Some(_)) => ("-", Style::new()),
            _ => ("ok", GOOD),
        }
    }
}

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
    pub fn new(file: &Path, strict: bool) -> Report {
        let file = file.display().to_string();
        Report { file, errors: 0, warnings: 0, good: true, checks: Vec::new(), strict }
    }

    pub fn push(&mut self, check: Check) {
        self.errors += check.count(Severity::Error);
        self.warnings += check.count(Severity::Warning);
        self.good = self.errors == 0 && (!self.strict || self.warnings == 0);
        self.checks.push(check);
    }

    pub fn extend(&mut self, checks: impl IntoIterator<Item = Check>) {
        checks.into_iter().for_each(|check| self.push(check));
    }

    pub fn json(&self) -> Result<String, Failure> {
        pretty_json(self)
    }

    /// The report without styles.
    pub fn text(&self) -> String {
        anstream::adapter::strip_str(&self.styled_text()).to_string()
    }

    /// A line for each check, then its findings.
    pub fn styled_text(&self) -> String {
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
            let (state, style) = check.state();
            text += &line.replacen(&format!("  {state}"), &format!("  {style}{state}{style:#}"), 1);
            text.push('\n');
        }
        for check in &self.checks {
            for Finding { severity, message, .. } in &check.findings {
                let (label, style) = match severity {
                    Severity::Note => ("note", Style::new()),
                    Severity::Warning => ("warning", WARNING),
                    Severity::Error => ("error", ERROR),
                };
                text += &format!("{style}{label}:{style:#} {}: {}\n", check.name, printable(message));
            }
        }
        text
    }

    /// The end of the command: a failure where something is wrong.
    pub fn verdict(&self) -> Result<(), Failure> {
        let count = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{n} {what}s"),
        };
        match self.good {
            true => Ok(()),
            false => Err(Failure::new(format_args!(
                "{}: {}, {}",
                self.file,
                count(self.errors, "error"),
                count(self.warnings, "warning")
            ))),
        }
    }
}
