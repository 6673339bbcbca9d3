//! `gguf-convert --list-architectures`: the table of architectures.

use arch::ARCHES;
use serde::Serialize;

use crate::{commands::shared::table::table, failure::Failure, ui::Ui};

#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    classes: Vec<&'static str>,
    example: &'static str,
    /// Why files cannot be exported to a folder; none where they can.
    not_exportable: Option<&'static str>,
}

/// Prints the table.
///
/// # Errors
/// What writing to stdout says.
pub fn list(json: bool, ui: &Ui) -> Result<(), Failure> {
    let listed: Vec<Listed> = ARCHES
        .iter()
        .map(|arch| Listed {
            name: arch.name,
            classes: arch.classes.iter().map(|class| class.name).collect(),
            example: arch.example,
            not_exportable: arch.export.obstacle(),
        })
        .collect();
    if json {
        return ui.data(&(serde_json::to_string_pretty(&listed).map_err(Failure::new)? + "\n"));
    }
    let mut rows = vec![["architecture", "example", "export", "classes"].map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|it| {
        let export = it.not_exportable.map_or("yes".to_owned(), |reason| format!("no: {reason}"));
        vec![it.name.into(), it.example.into(), export, it.classes.join(", ")]
    }));
    ui.data(&table(&rows, &[]))
}
