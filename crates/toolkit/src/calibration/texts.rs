//! Texts, cut into chunks for calibration and for verification.

use std::path::Path;

use gguf_refinement::moments::Texts;
use gguf_runtime::{
    Model,
    chunks::{Chunk, Settings},
};

use super::names::failed;
use crate::{
    calibration_text::{Source, built_in_chunks, sampled_chunks},
    chats,
    error::Error,
    events::Events,
    text_file,
};

/// Tokens of a window.
pub const WINDOW: usize = 512;
/// Limit of the windows for verification.
pub const VERIFY_WINDOWS: usize = 10;
/// Minimum number of windows: one of them is held out.
const LEAST_WINDOWS: usize = 4;

/// Chunks of the texts.
#[derive(Debug)]
pub struct Windows {
    /// To calibrate: of all texts in turn.
    pub calibration: Texts,
    /// Chunks of the rest of the texts.
    pub rest: Vec<Chunk>,
}

/// Cuts texts into windows. They are taken from each text in turn, so that a long text does not outweigh a short one.
///
/// # Errors
/// A text that cannot be read or has less than two windows; texts that are too short together.
pub fn windows(
    model: &Model,
    texts: &[impl AsRef<Path>],
    n_tokens: usize,
    events: &dyn Events,
) -> Result<Windows, Error> {
    let mut of_texts = Vec::with_capacity(texts.len());
    for text in texts {
        let windows = match Source::of(text.as_ref())? {
            Source::File(text) => windows_of(model, text, events)?,
            Source::BuiltIn => built_in_chunks(model, WINDOW, events)?,
            Source::Sampled => sampled_chunks(model, n_tokens, WINDOW, events)?,
        };
        of_texts.push(windows.into_iter());
    }
    let (mut taken, mut n_taken) = (Vec::new(), 0);
    while n_taken < n_tokens {
        let before = taken.len();
        for window in of_texts.iter_mut().filter_map(Iterator::next) {
            if n_taken < n_tokens {
                n_taken += window.len();
                taken.push(window);
            }
        }
        if taken.len() == before {
            break;
        }
    }
    if n_taken < LEAST_WINDOWS * WINDOW {
        let needed = LEAST_WINDOWS * WINDOW;
        let message = format!(
            "the texts are too short: expected at least {needed} tokens in whole chunks, found {n_taken}"
        );
        return Err(Error::new(message)
            .hint(["use about 16,000 tokens of text similar to what the model will process"]));
    }
    let rest = of_texts.into_iter().flatten().filter_map(chunk).collect();
    Ok(Windows { calibration: Texts::from_chunks(taken), rest })
}

/// All windows of a text to verify on.
///
/// # Errors
/// A text that cannot be read or has fewer than two windows.
pub fn chunks_of(model: &Model, text: &Path, events: &dyn Events) -> Result<Vec<Chunk>, Error> {
    Ok(windows_of(model, text, events)?.into_iter().filter_map(chunk).collect())
}

/// Windows of a text, or of chats.
fn windows_of(model: &Model, text: &Path, events: &dyn Events) -> Result<Vec<Vec<u32>>, Error> {
    let settings = Settings { context: WINDOW, n_chunks: None, stride: None };
    let made = if chats::is_file_of_chats(text) {
        Texts::from_transcripts(model, &chats::rendered(model, text, events)?, WINDOW)
    } else {
        Texts::from_text(model, &text_file::of_model(text, events)?, &settings)
    };
    let made = made.map_err(|error| failed(text, error))?;
    made.warnings().iter().for_each(|warning| events.warning(format!("{}: {warning}", text.display())));
    Ok(made.chunks().to_vec())
}

/// A window whose second half is predicted; `None` if it is not full.
fn chunk(tokens: Vec<u32>) -> Option<Chunk> {
    let counted = WINDOW / 2..WINDOW - 1;
    let targets = tokens.get(counted.start + 1..=counted.end)?.to_vec();
    (tokens.len() == WINDOW).then_some(Chunk { tokens, counted, targets })
}
