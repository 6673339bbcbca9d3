//! Notes on a checkpoint: tensors without a place, unused keys of the config, the type of its weights.

use std::collections::HashSet;

use gguf_checkpoint::{Checkpoint, Dtype};
use gguf_layout::{Dropped, Families, Layout, UnreadKey, tensors::drops};
use gguf_types::{Words, counted, words};
use serde_json::Value as Json;

use crate::events::Events;

/// Messages about an input, by severity.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// Reasons why the file will not load as it is.
    pub warnings: Vec<Words>,
    /// Facts that matter to most users.
    pub notes: Vec<Words>,
    /// Confirmed facts, for `--verbose`.
    pub details: Vec<Words>,
}

impl Notes {
    /// Collects the messages of layouts after those of the checkpoint.
    pub fn of(checkpoint: &[String], layouts: &[&Layout]) -> Notes {
        let all = |lines: fn(&Layout) -> &Vec<String>| -> Vec<Words> {
            layouts.iter().flat_map(|layout| lines(layout)).map(Words::from).collect()
        };
        let other_pre = layouts.iter().find_map(|layout| layout.other_pre.as_ref());
        let other_pre =
            other_pre.map(|name| words!("use `[-pre {}]`, the pre-tokenizer that matches its regexes", name));
        Notes {
            warnings: all(|layout| &layout.warnings),
            notes: [
                checkpoint.iter().map(Words::from).collect(),
                all(|layout| &layout.notes),
                other_pre.into_iter().collect(),
            ]
            .concat(),
            details: all(|layout| &layout.details),
        }
    }

    /// These with warnings before their own.
    pub fn with_warnings(self, warnings: &[String]) -> Notes {
        Notes { warnings: warnings.iter().map(Words::from).chain(self.warnings).collect(), ..self }
    }

    /// Reports them.
    pub fn tell(&self, events: &dyn Events) {
        self.warnings.iter().for_each(|text| events.warning(text));
        self.notes.iter().for_each(|text| events.note(text));
        self.details.iter().for_each(|text| events.detail(text));
    }

    /// All of them, for reports.
    pub fn all(&self) -> Vec<String> {
        [&self.warnings, &self.notes, &self.details].into_iter().flatten().map(Words::to_string).collect()
    }
}

/// Tensors without a place in any of the files. A tensor that one file leaves out may be in another.
pub fn dropped(layouts: &[&Layout]) -> Vec<gguf_layout::Dropped> {
    let tensors = layouts.iter().filter(|_| layouts.len() > 1).flat_map(|layout| &layout.tensors);
    let mut seen: HashSet<&str> =
        tensors.flat_map(|tensor| tensor.data.sources()).map(String::as_str).collect();
    // Once, if both leave it out.
    let dropped = layouts.iter().flat_map(|layout| &layout.dropped);
    dropped.filter(|dropped| seen.insert(&dropped.name)).cloned().collect()
}

/// A note about vision towers and audio encoders that the file of the text model does not have.
pub fn left_out_towers(families: &Families, config: &Json, dropped: &[Dropped]) -> Option<Words> {
    let n_in = |is: &dyn Fn(&Dropped) -> bool| dropped.iter().filter(|dropped| is(dropped)).count();
    let n_written = n_in(&|dropped| families.is_in_projector(config, &dropped.name));
    let n_towers = n_in(&|dropped| dropped.reason == drops::TOWER);
    match (n_written, n_towers) {
        (0, 0) => None,
        (0, n) => Some(words!(
            "the file has only the text model: {} of towers for images, sound or speech are omitted, and no projector for them is supported",
            counted(n, "tensor")
        )),
        (n, _) => Some(words!(
            "the file has only the text model: {} of its vision tower or audio encoder are omitted; [-with-mmproj] writes them to a second file",
            counted(n, "tensor")
        )),
    }
}

/// Reports keys of the config that were not read: those that may affect the computation as a note, or as a
/// warning if the architecture was forced; all others as details.
pub fn report_unread_keys(layout: &Layout, is_forced: bool, events: &dyn Events) -> Vec<Words> {
    let (mathematics, others): (Vec<&UnreadKey>, Vec<&UnreadKey>) =
        layout.unread_keys.iter().partition(|key| key.is_mathematics);
    let list = |keys: &[&UnreadKey]| {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{}` {}", key.key, key.value)).collect();
        keys.join(", ")
    };
    let name = layout.architecture;
    if !others.is_empty() {
        events.detail(format!("unused config keys of `{name}`: {}", list(&others)));
    }
    if mathematics.is_empty() {
        return Vec::new();
    }
    let line = format!(
        "config keys that are not used for `{name}`, but may change the computation: {}",
        list(&mathematics)
    );
    if is_forced {
        events.warning(&line);
        return Vec::new();
    }
    vec![line.into()]
}

/// The float type that preserves most weights: that of the first 16-bit matrix. This is the reference's `auto`
/// (`ModelBase.__init__`, conversion/base.py).
pub fn float_of(checkpoint: &Checkpoint) -> &'static str {
    let mut matrices = checkpoint.tensors.iter().filter(|tensor| tensor.shape.len() >= 2);
    let found = matrices.find_map(|tensor| match tensor.dtype {
        Dtype::BF16 => Some("bf16"),
        Dtype::F16 => Some("f16"),
        _ => None,
    });
    found.unwrap_or("f16")
}
