//! Commands that report on one file or on several.

use std::path::{Path, PathBuf};

use gguf_toolkit::{ErrorKind, input_files::models_in, text::pretty_json};
use serde::Serialize;
use serde_json::json;

use crate::{
    failure::{Failure, hint_texts},
    ui::Ui,
};

/// Form of the report of a command on a file.
pub(in crate::commands) struct Report<T> {
    /// Text for people, with styles; empty for a file to print nothing about.
    pub text: fn(&T) -> String,
    /// An error if the file did not pass.
    pub verdict: fn(&T) -> Result<(), Failure>,
    /// Print JSON.
    pub json: bool,
}

/// Reports on each file. For one file the output is its report; for several, or a folder, each text follows the name of its file,
/// and JSON is an array. A file that fails does not stop the others.
///
/// # Errors
/// The failure of a single file; for several, an interruption, invalid options, or the number of files that failed.
pub(in crate::commands) fn report_each<T: Serialize>(
    paths: &[PathBuf],
    report: &Report<T>,
    ui: &Ui,
    look: impl Fn(&Path) -> Result<T, Failure>,
) -> Result<(), Failure> {
    if let [path] = paths
        && !path.is_dir()
    {
        let found = look(path)?;
        if report.json {
            ui.json(&found)?
        } else {
            ui.styled_data(&(report.text)(&found))?
        }
        return (report.verdict)(&found);
    }
    let files = models_in(paths)?;
    let (mut n_failed, mut n_printed) = (0, 0);
    for file in &files {
        let found = look(file);
        if let Err(failure) = &found
            && matches!(failure.kind(), ErrorKind::Interrupted | ErrorKind::Usage)
        {
            return found.map(drop);
        }
        if report.json {
            let object = match &found {
                Ok(found) => pretty_json(found)?,
                Err(failure) => {
                    let file = file.display().to_string();
                    pretty_json(
                        &json!({"file": file, "error": failure.to_string(), "hints": hint_texts(failure)}),
                    )?
                }
            };
            ui.data(&format!("{}{}", if n_printed == 0 { "[\n" } else { ",\n" }, object.trim_end()))?;
            n_printed += 1;
        } else if let Some(text) = found.as_ref().ok().map(report.text).filter(|text| !text.is_empty()) {
            let name = gguf_toolkit::text::printable(&file.display().to_string());
            let gap = if n_printed == 0 { "" } else { "\n" };
            // A summary of a file without a name begins with that of the file.
            let own_name = gguf_toolkit::text::printable(&gguf_toolkit::text::file_name(file));
            let text = text.strip_prefix(&format!("{own_name}\n")).unwrap_or(&text);
            ui.styled_data(&format!("{gap}{name}:\n{text}"))?;
            n_printed += 1;
        }
        if let Err(failure) = found.and_then(|found| (report.verdict)(&found)) {
            ui.failure(&failure);
            n_failed += 1;
        }
    }
    if report.json {
        ui.data("\n]\n")?;
    }
    match n_failed {
        0 => Ok(()),
        n_failed => Err(Failure::new(format_args!("{n_failed} of {} files failed", files.len()))),
    }
}
