//! `gguf-publish`: folders of tiny models, and updates of existing folders.

mod calibration;
mod calls;
mod folders;
mod metadata;
mod updates;

use crate::common::{Output, Sandbox};

/// Writes `cal.txt` and `eval.txt`: words that every tiny tokenizer has something for, of which none is in the built-in texts.
fn write_texts(sandbox: &Sandbox) {
    let text = |first: usize| -> String {
        (first..first + 400)
            .map(|i| format!("Line {i} of the log says that pump {} ran {} minutes. ", i % 7, i * 13 % 60))
            .collect()
    };
    sandbox.write("cal.txt", text(0));
    sandbox.write("eval.txt", text(1000));
}

/// Fails if a run converted or measured anything.
fn is_kept(ran: &Output) {
    for stage in ["files: ", "importance matrix", "comparing "] {
        assert!(!ran.stderr.contains(stage), "{stage}: {}", ran.stderr);
    }
}
