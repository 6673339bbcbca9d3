//! Check of a `Modelfile`, by which Ollama imports a file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::Metadata;
use gguf_types::words;

use super::{
    programs::ollama,
    report::{Check, Finding},
};
use crate::{error::Error, modelfile};

/// Largest `Modelfile` that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A `Modelfile`.
pub struct Modelfile {
    /// File of the first FROM line.
    pub model: PathBuf,
    /// Files of the FROM and ADAPTER lines after it.
    others: Vec<PathBuf>,
    text: String,
}

impl Modelfile {
    /// Reads a `Modelfile`, which begins with FROM; `None` for other files.
    pub fn read(path: &Path) -> Option<Modelfile> {
        fs::metadata(path).ok().filter(|file| file.is_file() && file.len() <= MAX_BYTES)?;
        let text = fs::read_to_string(path).ok()?.replace("\r\n", "\n");
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let folder = path.parent()?;
        let mut files =
            lines.map_while(named).map(|name| folder.join(name.strip_prefix("./").unwrap_or(name)));
        let model = files.next()?;
        let others = files.collect();
        Some(Modelfile { model, others, text })
    }

    /// Compares the lines after FROM with those that a conversion writes for a model with this metadata.
    ///
    /// # Errors
    /// A chat template that takes too much memory or time.
    pub fn check(&self, metadata: &Metadata) -> Result<Check, Error> {
        let mut check = Check::new("modelfile");
        check.summary = format!("FROM {}", self.model.display());
        for file in self.others.iter().filter(|file| !file.is_file()) {
            check.push(Finding::error("missing_file", format!("missing file `{}`", file.display())));
        }
        let begins =
            |own: &str, line: &str| own.get(..line.len()).is_some_and(|own| own.eq_ignore_ascii_case(line));
        let has = |line: &str| self.text.lines().any(|own| begins(own, line));
        if !has("TEMPLATE ") {
            check.findings.extend(ollama::prompts(metadata)?.1);
            return Ok(check);
        }
        let Some(expected) = modelfile::template(metadata) else { return Ok(check) };
        let (template, stop) = expected.rsplit_once("PARAMETER ").unwrap_or((expected.as_str(), ""));
        if !self.text.contains(template.trim_end()) {
            let message =
                "TEMPLATE differs from the translated chat template of the file, so prompts may differ";
            check.push(Finding::warning("modelfile_template", message));
            check.push(Finding::note(
                "hint",
                words!("`[gguf-convert SRC -modelfile FILE]` writes both lines for a model"),
            ));
        }
        let stop = format!("PARAMETER {}", stop.trim_end());
        if stop != "PARAMETER " && !has(&stop) && !has(&stop.replace('"', "")) {
            check.push(Finding::warning("modelfile_stop", format!("missing `{stop}`: answers may not end")));
        }
        Ok(check)
    }
}

/// The file of a FROM or ADAPTER line.
fn named(line: &str) -> Option<&str> {
    let (word, value) = line.split_once(char::is_whitespace)?;
    let is_file = ["FROM", "ADAPTER"].iter().any(|name| word.eq_ignore_ascii_case(name));
    is_file.then(|| value.trim().trim_matches('"'))
}
