//! Result of the comparison: checks, and the part that is responsible.

use std::collections::BTreeSet;

use serde::Serialize;

use super::logits::Predictions;
use crate::{
    error::Error,
    text::{pretty_json, printable},
    verify::{Check, Finding, Report, Severity, Tone},
};

/// Part of a model that can differ from the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Part {
    /// Special tokens, vocabulary, merges, pre-tokenizer.
    Tokenizer,
    /// Chat template.
    Template,
    /// Tensors.
    Weights,
    /// Hyperparameters and the computation itself.
    Graph,
    /// Weights or graph; the record does not tell which.
    #[serde(rename = "weights or graph")]
    WeightsOrGraph,
}

impl Part {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Part::Tokenizer => "tokenizer",
            Part::Template => "template",
            Part::Weights => "weights",
            Part::Graph => "graph",
            Part::WeightsOrGraph => "weights or graph",
        }
    }
}

/// A part that is responsible for a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Responsible {
    /// The part.
    pub part: Part,
    /// The findings that point to it, the strongest first.
    pub evidence: Vec<String>,
    /// Steps to take.
    pub advice: Vec<String>,
}

/// Result of a comparison with an original model.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::check_against::{CheckAgainst, Part};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let report = CheckAgainst::new("model.gguf", "model.record.json").run(&())?;
/// if report.responsible().iter().any(|responsible| responsible.part == Part::Template) {
///     println!("the chat template differs");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckAgainstReport {
    same: bool,
    responsible: Vec<Responsible>,
    predictions: Option<Predictions>,
    #[serde(flatten)]
    report: Report,
}

/// Number of findings that are repeated as evidence.
const EVIDENCE: usize = 4;

impl CheckAgainstReport {
    pub(super) fn new(report: Report, predictions: Option<Predictions>) -> CheckAgainstReport {
        let responsible = responsible(report.checks(), predictions.as_ref());
        CheckAgainstReport { same: responsible.is_empty(), responsible, predictions, report }
    }

    /// True if no difference was found.
    pub fn is_same(&self) -> bool {
        self.same
    }

    /// The parts that differ from the original, each with evidence and advice. Empty if nothing differs.
    pub fn responsible(&self) -> &[Responsible] {
        &self.responsible
    }

    /// Differences of predictions; `None` if none were compared.
    pub fn predictions(&self) -> Option<&Predictions> {
        self.predictions.as_ref()
    }

    /// All checks with their findings.
    pub fn checks(&self) -> &[Check] {
        self.report.checks()
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// None are known.
    pub fn json(&self) -> Result<String, Error> {
        pretty_json(self)
    }

    /// A line for each check, its findings, then the responsible parts with advice.
    pub fn text(&self) -> String {
        self.text_with(|_, word| word.to_owned())
    }

    /// Same as [`CheckAgainstReport::text`], with states and labels changed by `style`.
    pub fn text_with(&self, style: impl Fn(Tone, &str) -> String) -> String {
        let mut text = self.report.text_with(&style);
        if self.same {
            text += &format!("\n{}\n", style(Tone::Good, "no difference found"));
            return text;
        }
        for Responsible { part, evidence, advice } in &self.responsible {
            text += &format!("\n{}: {}\n", style(Tone::Error, "responsible"), part.name());
            for line in evidence {
                text += &format!("  {}\n", printable(line));
            }
            for line in advice {
                text += &format!("  advice: {line}\n");
            }
        }
        text
    }

    /// An error if the file differs from the original.
    ///
    /// # Errors
    /// The responsible parts.
    pub fn verdict(&self) -> Result<(), Error> {
        if self.same {
            return Ok(());
        }
        let parts: Vec<&str> = self.responsible.iter().map(|responsible| responsible.part.name()).collect();
        Err(Error::new(format_args!(
            "{}: differs from the original ({})",
            self.report.file(),
            parts.join(", ")
        )))
    }
}

/// Errors of the checks with these names.
fn errors<'a>(checks: &'a [Check], names: &[&str]) -> Vec<&'a Finding> {
    let of = checks.iter().filter(|check| names.contains(&check.name));
    of.flat_map(|check| &check.findings).filter(|finding| finding.severity == Severity::Error).collect()
}

/// True if a check with one of these names compared something.
fn was_made(checks: &[Check], names: &[&str]) -> bool {
    checks.iter().any(|check| names.contains(&check.name) && check.not_checked.is_none())
}

fn evidence(found: &[&Finding]) -> Vec<String> {
    let shown = found.iter().take(EVIDENCE).map(|finding| finding.message.clone());
    let more = found.len().saturating_sub(EVIDENCE);
    shown.chain((more > 0).then(|| format!("{more} more"))).collect()
}

/// Names of the checks of weights: by the rows of a record, and by a checkpoint.
const WEIGHTS: &[&str] = &["weights", "tensors"];
const KEYS: &[&str] = &["hyperparameters"];

/// Checks whose errors point to one part.
struct Attribution {
    checks: &'static [&'static str],
    part: Part,
    advice: fn(&[&Finding]) -> Vec<String>,
}

/// In the order in which text passes through a model.
const ATTRIBUTIONS: [Attribution; 4] = [
    Attribution { checks: &["special tokens", "token ids"], part: Part::Tokenizer, advice: tokenizer_advice },
    Attribution { checks: &["prompts"], part: Part::Template, advice: template_advice },
    Attribution { checks: WEIGHTS, part: Part::Weights, advice: weights_advice },
    Attribution { checks: KEYS, part: Part::Graph, advice: keys_advice },
];

/// Attributes the differences.
fn responsible(checks: &[Check], predictions: Option<&Predictions>) -> Vec<Responsible> {
    let attributed = |Attribution { checks: names, part, advice }: Attribution| {
        let found = errors(checks, names);
        let (evidence, advice) = (evidence(&found), advice(&found));
        (!found.is_empty()).then_some(Responsible { part, evidence, advice })
    };
    let mut found: Vec<Responsible> = ATTRIBUTIONS.into_iter().filter_map(attributed).collect();
    let outcome = errors(checks, &["predictions"]);
    let place = predictions.filter(|predictions| !predictions.is_near()).map(place).unwrap_or_default();
    let mut reasons = found.iter_mut().filter(|found| matches!(found.part, Part::Weights | Part::Graph));
    match reasons.next_back() {
        // The place supports the reason that was found.
        Some(reason) => reason.evidence.extend(place),
        // Predictions that differ need another reason only if none was found above.
        None if !outcome.is_empty() => {
            let (part, advice) = if was_made(checks, WEIGHTS) && was_made(checks, KEYS) {
                (
                    Part::Graph,
                    "weights and hyperparameters agree, so the architecture computes something else: report it with this text",
                )
            } else {
                (
                    Part::WeightsOrGraph,
                    "compare the weights too: pass the checkpoint, or make the record with weights",
                )
            };
            let mut evidence = evidence(&outcome);
            evidence.extend(place);
            found.push(Responsible { part, evidence, advice: vec![advice.to_owned()] });
        }
        None => {}
    }
    found
}

fn has(found: &[&Finding], code: &str) -> bool {
    found.iter().any(|finding| finding.code == code)
}

fn tokenizer_advice(found: &[&Finding]) -> Vec<String> {
    let has = |code| has(found, code);
    let mut advice = Vec::new();
    if has("added_before") || has("added_after") {
        advice.push(
            "set `tokenizer.ggml.add_bos_token` and `tokenizer.ggml.add_eos_token` as the original does"
                .to_owned(),
        );
    }
    if has("special_token") {
        advice.push("set the special token ids to those of the original".to_owned());
    }
    if has("token_ids") || has("special_text") || has("tokenizer") {
        advice.push(
            "convert again with the tokenizer files that the model was trained with, including added tokens"
                .to_owned(),
        );
    }
    advice
}

fn template_advice(found: &[&Finding]) -> Vec<String> {
    let advice = if has(found, "missing_template") {
        "write the chat template of the original to `tokenizer.chat_template`"
    } else {
        "replace `tokenizer.chat_template` with the chat template of the original"
    };
    vec![advice.to_owned()]
}

fn keys_advice(_: &[&Finding]) -> Vec<String> {
    let advice = "set these keys to the expected values, or convert again from the config of the original";
    vec![advice.to_owned()]
}

fn weights_advice(found: &[&Finding]) -> Vec<String> {
    let mut advice = Vec::new();
    if has(found, "permuted") {
        advice.push(
            "rows moved, as in a wrong permutation of the heads of queries or keys: convert again with another converter"
                .to_owned(),
        );
    }
    let changed = || found.iter().filter(|finding| finding.code == "differs");
    // Adapters change the same matrices in every layer.
    let kinds: BTreeSet<&str> = changed().filter_map(|finding| kind(&finding.message)).collect();
    let n_changed = changed().count();
    if n_changed > 1 && kinds.len() * 2 <= n_changed {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        advice.push(format!(
            "the same matrices differ in several blocks ({}), as if an adapter was not merged: merge it and convert again",
            kinds.join(", ")
        ));
    }
    if advice.is_empty() {
        advice.push("convert again from the weights of the original".to_owned());
    }
    advice
}

/// Kind of the tensor of a block in a finding: `attn_q` for `blk.3.attn_q.weight`.
fn kind(message: &str) -> Option<&str> {
    let name = message.split('`').nth(1)?;
    gguf_types::layer_and_part(name)?.1.split('.').next()
}

/// Description of the place where the computation begins to differ.
fn place(predictions: &Predictions) -> Vec<String> {
    let mut lines = Vec::new();
    let inputs = &predictions.inputs;
    if inputs.is_empty() {
        return lines;
    }
    let Some(first) = predictions.first_different_input() else {
        lines.push(
            "the inputs of all recorded products agree: the output matrix or the scale of logits differs"
                .to_owned(),
        );
        return lines;
    };
    lines.push(format!(
        "the computation first differs at the input of `{}` (relative error {:.4}), that is in {}",
        first.tensor,
        first.error,
        before(&first.tensor)
    ));
    // With one token, attention returns its value whatever queries, keys and positions are.
    let is_of_later_tokens = first.first_error * 10.0 < first.error;
    if is_of_later_tokens && first.tensor.contains("attn_output") {
        lines.push(
            "the first token agrees: queries, keys, rotary embedding, mask or scale of attention differ, not values".to_owned(),
        );
    }
    lines
}

/// The step before the product with a tensor.
fn before(tensor: &str) -> String {
    let (block, part) = gguf_types::layer_and_part(tensor).unwrap_or((0, tensor));
    let kind = part.split('.').next().unwrap_or_default();
    match kind {
        "attn_output" => format!("attention of block {block}"),
        "ffn_down" => {
            format!("the first matrices or the activation of the feed-forward part of block {block}")
        }
        "ffn_up" | "ffn_gate" => {
            format!("`blk.{block}.attn_output`, a residual or the norm before the feed-forward part")
        }
        "output" | "token_embd" => "the feed-forward part of the last block or the output norm".to_owned(),
        _ => match block.checked_sub(1) {
            Some(previous) => {
                format!("the feed-forward part of block {previous} or the norm of block {block}")
            }
            None => "the embedding or the first norm".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_findings() {
        assert_eq!(kind("tensor `blk.12.attn_q.weight`: relative error 0.1"), Some("attn_q"));
        assert_eq!(kind("tensor `output.weight`: relative error 0.1"), None);
    }

    #[test]
    fn steps_before_products_are_named() {
        assert_eq!(before("blk.0.attn_q.weight"), "the embedding or the first norm");
        assert_eq!(before("blk.3.attn_output.weight"), "attention of block 3");
        assert_eq!(before("blk.3.attn_q.weight"), "the feed-forward part of block 2 or the norm of block 3");
        assert_eq!(before("output.weight"), "the feed-forward part of the last block or the output norm");
    }
}
