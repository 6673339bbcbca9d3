//! Limits for untrusted chat templates. [`gguf_runtime::chat`] limits their steps; this module limits their memory
//! and time, since a text that is appended to itself has thousands of gigabytes after forty steps.

use std::{
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use gguf_runtime::chat::{Chat, ChatError, Conversation, Date, Settings, SpecialTokens, render_chat};

use crate::error::Error;

/// Additional memory that templates may use; prompts need some kilobytes.
const MAX_BYTES: u64 = 256 << 20;
/// Time that they may take.
const MAX_TIME: Duration = Duration::from_secs(60);
/// Interval between two checks of memory and time.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs `work` in a thread and waits while memory and time stay within bounds.
///
/// # Errors
/// Exceeded limits. The thread then runs until the program ends, which should be soon.
pub fn guarded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let failed = |what: String| Error::new(format!("`tokenizer.chat_template`: {what}"));
    let (before, begin) = (resident_bytes(), Instant::now());
    let (sender, receiver) = channel();
    let send = move || {
        // The receiver is gone if limits were exceeded.
        let _ = sender.send(work());
    };
    thread::Builder::new()
        .spawn(send)
        .map_err(|error| Error::new(format_args!("cannot start a thread: {error}")))?;
    loop {
        match receiver.recv_timeout(PAUSE) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => return Err(failed("rendering failed".to_owned())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let took = resident_bytes().saturating_sub(before);
        if took > MAX_BYTES {
            return Err(failed(format!("stopped after using more than {} MiB of memory", MAX_BYTES >> 20)));
        }
        if begin.elapsed() > MAX_TIME {
            return Err(failed(format!("stopped after {} s", MAX_TIME.as_secs())));
        }
    }
}

/// Renders every fixed conversation with a template.
///
/// # Errors
/// As [`guarded`]; errors of the template itself are returned with their conversation.
pub fn render_fixed(template: &str, tokens: &SpecialTokens) -> Result<Vec<Result<String, ChatError>>, Error> {
    let (template, tokens) = (template.to_owned(), tokens.clone());
    let rendered = move |chat: &Conversation<'_>| {
        let settings = Settings { tokens: &tokens, generation_prompt: true, date: Date::FIXED };
        let made = render_chat(&template, &Chat::of(chat), &settings);
        // Templates of vision models ignore texts that are not in a list of parts.
        match made {
            Ok(text) if !chat.is_asked_in(&text) => {
                let of_parts = render_chat(&template, &Chat::of(chat).with_parts(), &settings);
                Ok(of_parts.ok().filter(|of_parts| chat.is_asked_in(of_parts)).unwrap_or(text))
            }
            made => made,
        }
    };
    guarded(move || Conversation::fixed().iter().map(rendered).collect())
}

/// Resident memory of this process, if the system reports it, without mapped files.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_templates_are_rendered() {
        assert_eq!(guarded(|| 7).ok(), Some(7));
        let rendered = render_fixed("{{ bos_token }}{{ messages[0].role }}", &SpecialTokens::new("<s>", ""))
            .ok()
            .unwrap_or_default();
        assert!(rendered.iter().all(|text| text.as_ref().is_ok_and(|text| text.starts_with("<s>"))));
    }

    #[test]
    fn panic_becomes_a_failure() {
        assert!(guarded(|| -> u8 { panic!("on purpose") }).is_err());
    }
}
