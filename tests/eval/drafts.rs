//! `gguf-eval draft` on tiny models.

use crate::common::{Sandbox, succeed};

/// A target, a draft that reads its states, and a text.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("mimo2", "target.gguf", "f32");
    sandbox.add_golden("dspark");
    succeed(sandbox.convert(&["dspark", "draft.gguf", "-t", "f32", "-q", "--target-model-dir", "mimo2"]));
    sandbox.add_text();
    sandbox
}

/// A short measurement.
const CALL: &[&str] =
    &["--text", "text", "--context", "16", "--chunks", "4", "--tokens", "12", "--draft-tokens", "3"];

#[test]
fn identical_draft_is_accepted_entirely() {
    let sandbox = sandbox();
    let ran = succeed(
        sandbox.eval(&[&["draft", "target.gguf", "target.gguf", "--json", "--quiet"], CALL].concat()),
    );
    let found = ran.json();
    assert_eq!(
        (&found["draft_architecture"], found["draft_reads_states"].as_bool()),
        (&"mimo2".into(), Some(false))
    );
    assert_eq!((found["prompts"].as_u64(), found["prompt_tokens"].as_u64()), (Some(4), Some(16)));
    assert_eq!(found["accepted_per_step"].as_f64(), Some(3.0), "{found}");
    assert_eq!(found["accepted_per_step_error"].as_f64(), Some(0.0));
    assert_eq!(found["tokens_per_step"].as_f64(), Some(4.0));
    let positions = found["acceptance_by_position"].as_array().unwrap();
    assert_eq!(positions.len(), 3);
    assert!(positions.iter().all(|position| position["rate"].as_f64() == Some(1.0)), "{found}");
}

#[test]
fn acceptance_of_state_reading_draft_is_measured() {
    let sandbox = sandbox();
    let call = [&["draft", "target.gguf", "draft.gguf"], CALL].concat();
    let found = succeed(sandbox.eval(&[&call[..], &["--json", "--quiet"]].concat())).json();
    assert_eq!(
        (&found["draft_architecture"], found["draft_reads_states"].as_bool()),
        (&"dflash".into(), Some(true))
    );
    let (steps, mean) =
        (found["steps"].as_u64().unwrap() as f64, found["accepted_per_step"].as_f64().unwrap());
    let written = found["tokens_written"].as_u64().unwrap() as f64;
    // Every step writes one token more than it accepts, unless an end-of-text token is among them.
    assert!(written <= steps * (mean + 1.0) + 0.5 && written > 0.0, "{found}");
    let by_position: f64 = found["acceptance_by_position"]
        .as_array()
        .unwrap()
        .iter()
        .map(|position| position["rate"].as_f64().unwrap())
        .sum();
    // All steps propose the same number of tokens, so the rates add up to the mean.
    assert!((by_position - mean).abs() < 1e-9, "{found}");
    let text = succeed(sandbox.eval(&call)).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("accepted ") && lines[0].contains("4 prompts of 16 tokens"), "{text}");
    assert!(lines[1].starts_with("position  1  accepted ") && lines.len() == 4, "{text}");
    // The block of this draft has 4 rows.
    let more = succeed(sandbox.eval(&[&call[..9], &["--draft-tokens", "9"]].concat()));
    more.says("the draft proposes at most 4 tokens in a step");
}

#[test]
fn mismatched_drafts_are_refused() {
    let sandbox = sandbox();
    let alone = sandbox.eval(&["perplexity", "draft.gguf", "--text", "text"]);
    alone.ends_and_says(1, "is a draft model: it runs only with its target");
    alone.says("gguf-eval draft TARGET DRAFT");
    let swapped = sandbox.eval(&[&["draft", "draft.gguf", "target.gguf"], CALL].concat());
    swapped.ends_and_says(1, "is a draft model");
    sandbox.add_golden("gemma");
    succeed(sandbox.convert(&["gemma", "gemma.gguf", "-t", "f32", "-q"]));
    let other = sandbox.eval(&[&["draft", "target.gguf", "gemma.gguf"], CALL].concat());
    other.ends_and_says(1, "differs between the draft model and the target");
}
