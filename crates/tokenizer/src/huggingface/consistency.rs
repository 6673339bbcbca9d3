//! Compares a SentencePiece model with the tokenizer.json next to it.

use serde::Deserialize;

use super::hf::Tokens;
use super::spm_model::SpmModel;
use super::writer::TokenizerWriter;

/// Notes where tokenizer.json has other tokens than the model. The model is taken, as the
/// reference does: it has the scores, which tokenizer.json has lost.
pub(super) fn model_and_json(writer: &mut TokenizerWriter<'_>, model: &SpmModel<'_>) {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        #[serde(default)]
        vocab: Tokens,
    }
    let Some(bytes) = writer.file("tokenizer.json") else { return };
    let file: File = match serde_json::from_slice(bytes) {
        Ok(file) => file,
        // The code that needs this file reports its errors.
        Err(_) => return,
    };
    let reason = "using `tokenizer.model`, which has the scores";
    // Added tokens after the pieces in tokenizer.json are counted, not compared.
    let (mut differing, mut first, mut more) = (0usize, None, 0usize);
    for (text, id) in &file.model.vocab.0 {
        match model.pieces.get(*id as usize) {
            Some(piece) if piece.text == text => {}
            Some(piece) => {
                differing += 1;
                first.get_or_insert((*id, piece.text, text.as_str()));
            }
            None => more += 1,
        }
    }
    if let Some((id, piece, text)) = first {
        writer.note(format!(
            "`tokenizer.model` and `tokenizer.json` disagree on {differing} tokens: id {id} is `{piece}` and \
                `{text}`; {reason}"
        ));
    }
    let listed = file.model.vocab.0.len();
    if listed > 0 && (more > 0 || listed < model.pieces.len()) {
        writer.note(format!(
            "`tokenizer.model` has {} tokens, but `tokenizer.json` has {listed}; {reason}",
            model.pieces.len()
        ));
    }
}
