//! Limits for untrusted chat templates. [`gguf_runtime::chat`] limits their steps; this module limits their memory
//! and time, since a text that is appended to itself has thousands of gigabytes after forty steps.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use gguf_runtime::chat::{
    Chat, ChatError, Conversation, Date, Settings, SpecialTokens, render_chat, stop_with,
};

use crate::error::Error;

/// Additional memory that templates may use; prompts need some kilobytes.
const MAX_BYTES: u64 = 256 << 20;
/// Time that all templates of a file may take.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Interval between two checks of memory and time.
const PAUSE: Duration = Duration::from_millis(2);

/// Time for the templates of a file.
#[derive(Debug)]
pub struct Budget {
    left: Cell<Duration>,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { left: Cell::new(MAX_TIME) }
    }
}

impl Budget {
    /// Time for rendering texts of this number of bytes.
    pub fn for_texts(n_bytes: usize) -> Budget {
        Budget { left: Cell::new(MAX_TIME + Duration::from_secs(n_bytes as u64 >> 15)) }
    }

    /// Runs `work` in a thread and waits while memory and time stay within bounds.
    ///
    /// # Errors
    /// Exceeded limits. The thread then ends with the prompt that it is rendering.
    pub fn guarded<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let begin = Instant::now();
        let done = within(&Limits { time: self.left.get(), ..Limits::TEMPLATE }, work);
        self.left.set(self.left.get().saturating_sub(begin.elapsed()));
        done
    }
}

/// Like [`Budget::guarded`], for the only work on a file.
///
/// # Errors
/// As [`Budget::guarded`].
pub fn guarded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    within(&Limits::TEMPLATE, work)
}

/// Memory and time of a task, and its name in errors.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The name.
    pub subject: &'static str,
    /// Additional memory in bytes.
    pub bytes: u64,
    /// Time until the work is stopped.
    pub time: Duration,
}

impl Limits {
    const TEMPLATE: Limits = Limits { subject: "tokenizer.chat_template", bytes: MAX_BYTES, time: MAX_TIME };
}

/// Runs `work` in a thread and waits while memory and time stay within bounds.
///
/// # Errors
/// Exceeded limits.
pub fn within<T: Send + 'static>(
    limits: &Limits,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let failed = |what: String| Error::new(format!("`{}`: {what}", limits.subject));
    let (before, begin) = (resident_bytes(), Instant::now());
    let (sender, receiver) = channel();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let in_thread = Arc::clone(&is_stopped);
    let send = move || {
        stop_with(in_thread);
        // The receiver is gone if limits were exceeded.
        let _ = sender.send(work());
    };
    thread::Builder::new()
        .spawn(send)
        .map_err(|error| Error::new(format_args!("cannot start a thread: {error}")))?;
    loop {
        match receiver.recv_timeout(PAUSE) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => return Err(failed("internal error".to_owned())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let took = resident_bytes().saturating_sub(before);
        let exceeded = if took > limits.bytes {
            format!("stopped after using more than {} MiB of memory", limits.bytes >> 20)
        } else if begin.elapsed() > limits.time {
            "stopped because it takes too long".to_owned()
        } else {
            continue;
        };
        is_stopped.store(true, Ordering::Relaxed);
        return Err(failed(exceeded));
    }
}

/// Renders every fixed conversation with a template.
///
/// # Errors
/// As [`Budget::guarded`]; errors of the template itself are returned with their conversation.
pub fn render_fixed(
    budget: &Budget,
    template: &str,
    tokens: &SpecialTokens,
) -> Result<Vec<Result<String, ChatError>>, Error> {
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
    budget.guarded(move || Conversation::fixed().iter().map(rendered).collect())
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
        let rendered = render_fixed(
            &Budget::default(),
            "{{ bos_token }}{{ messages[0].role }}",
            &SpecialTokens::new("<s>", ""),
        )
        .ok()
        .unwrap_or_default();
        assert!(rendered.iter().all(|text| text.as_ref().is_ok_and(|text| text.starts_with("<s>"))));
    }

    #[test]
    fn panic_becomes_a_failure() {
        assert!(guarded(|| -> u8 { panic!("on purpose") }).is_err());
    }
}
