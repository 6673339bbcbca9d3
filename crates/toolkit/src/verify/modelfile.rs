//! Check of a `Modelfile`, by which Ollama imports a file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Adapter, Model};
use gguf_types::words;

use super::{
    keys::{ADAPTER, other_kind},
    programs::ollama::{self, Replaced},
    report::{Check, Finding},
};
use crate::{
    error::Error,
    input_kind::{Wanted, advice},
    modelfile::{
        self,
        syntax::{Line, lines},
    },
};

/// Largest `Modelfile` that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A `Modelfile`.
pub struct Modelfile {
    /// File of the first FROM line.
    pub model: Option<PathBuf>,
    /// Files of the other FROM lines.
    others: Vec<PathBuf>,
    /// Files or folders of the ADAPTER lines.
    adapters: Vec<PathBuf>,
    lines: Vec<Line>,
    text: String,
}

impl Modelfile {
    /// Reads a `Modelfile`, by its name or its instructions; `None` for other files.
    pub fn read(path: &Path) -> Option<Modelfile> {
        fs::metadata(path).ok().filter(|file| file.is_file() && file.len() <= MAX_BYTES)?;
        let text = fs::read_to_string(path).ok().filter(|text| !text.contains('\0'))?.replace("\r\n", "\n");
        let lines = lines(&text);
        let is_named = path.file_name()?.to_string_lossy().to_ascii_lowercase().starts_with("modelfile");
        let names_file = lines.iter().any(|line| ["FROM", "ADAPTER"].contains(&line.name.as_str()));
        if !(is_named || names_file && lines.first().is_some_and(Line::is_known)) {
            return None;
        }
        let folder = path.parent()?;
        let files = |name: &str| {
            let values =
                lines.iter().filter(|line| line.name == name).filter_map(|line| line.value.as_deref());
            let files = values.filter(|value| !value.is_empty());
            files.map(|value| folder.join(value.strip_prefix("./").unwrap_or(value))).collect::<Vec<_>>()
        };
        let mut others = files("FROM");
        let adapters = files("ADAPTER");
        let model = (!others.is_empty()).then(|| others.remove(0));
        Some(Modelfile { model, others, adapters, lines, text })
    }

    /// Lines that replace what the file states.
    pub fn replaced(&self) -> Replaced {
        Replaced { template: self.has("TEMPLATE"), system: self.has("SYSTEM") }
    }

    fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|line| line.name == name)
    }

    /// Checks the lines, without the files that they name.
    pub fn check_lines(&self) -> Check {
        let mut check = Check::new("modelfile");
        for line in &self.lines {
            let (number, key) = (line.number, &line.key);
            if let Some(problem) = line.problem() {
                check.push(Finding::error("modelfile_line", format!("line {number}: {problem}")));
            }
            if line.is_ignored() {
                let message = format!("line {number}: Ollama ignores the parameter `{key}`");
                check.push(Finding::warning("modelfile_parameter", message));
            }
        }
        match &self.model {
            Some(model) => check.summary = format!("FROM {}", model.display()),
            None => check.push(Finding::error("modelfile_from", "missing FROM, which names the model")),
        }
        check
    }

    /// Checks the lines and files, and compares the lines after FROM with those that a conversion writes for the model. Prompts are left
    /// out if they `are_reported` by another check.
    ///
    /// # Errors
    /// A chat template that takes too much memory or time.
    pub fn check(&self, model: &Model, are_reported: bool) -> Result<Check, Error> {
        let mut check = self.check_lines();
        let metadata = model.metadata();
        for file in self.others.iter().filter(|file| !file.is_file()) {
            check.push(Finding::error("missing_file", format!("missing file `{}`", file.display())));
        }
        if let Some(kind) = other_kind(metadata).filter(|kind| [ADAPTER, "imatrix"].contains(kind)) {
            let message = format!("FROM: expected a model, found a file of kind `{kind}`");
            check.push(Finding::error("modelfile_from", message));
            return Ok(check);
        }
        check.findings.extend(self.adapters.iter().flat_map(|path| of_adapter(path, model)));
        if !self.has("TEMPLATE") {
            if !are_reported {
                check.findings.extend(ollama::prompts(metadata, self.replaced())?.1);
            }
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
                words!("`[gguf-inspect show FILE -modelfile Modelfile]` writes both lines"),
            ));
        }
        let begins =
            |own: &str, line: &str| own.get(..line.len()).is_some_and(|own| own.eq_ignore_ascii_case(line));
        let has = |line: &str| self.text.lines().any(|own| begins(own, line));
        let stop = format!("PARAMETER {}", stop.trim_end());
        if stop != "PARAMETER " && !has(&stop) && !has(&stop.replace('"', "")) {
            check.push(Finding::warning("modelfile_stop", format!("missing `{stop}`: answers may not end")));
        }
        Ok(check)
    }
}

/// Findings about an adapter of a model. Ollama converts the folder of an adapter itself.
fn of_adapter(path: &Path, model: &Model) -> Vec<Finding> {
    let shown = path.display();
    if path.join("adapter_config.json").is_file() {
        let message = format!("ADAPTER {shown}: a folder, which is not compared with the model");
        let hint = advice(path, Wanted::Gguf).map(|advice| Finding::note("hint", advice));
        return [Finding::note("not_compared", message)].into_iter().chain(hint).collect();
    }
    let problem = if path.is_dir() {
        "the folder has no adapter_config.json".to_owned()
    } else if path.is_file() {
        match Adapter::open(path).and_then(|adapter| adapter.check(model)) {
            Ok(()) => return Vec::new(),
            Err(error) => error.to_string(),
        }
    } else {
        return vec![Finding::error("missing_file", format!("missing file `{shown}`"))];
    };
    vec![Finding::error("modelfile_adapter", format!("ADAPTER {shown}: {problem}"))]
}
