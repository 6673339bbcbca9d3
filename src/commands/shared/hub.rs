//! Access to the Hugging Face Hub, from the environment of the process.

use gguf_toolkit::hub::HubOptions;

/// The options that the environment sets.
pub(in crate::commands) fn hub_options() -> HubOptions {
    HubOptions {
        temporary: Some(std::env::temp_dir()),
        ..HubOptions::from_environment(|name| std::env::var(name).ok())
    }
}
