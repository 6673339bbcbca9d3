//! Options about the chat template.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{ChatOptions, text_file};

use crate::failure::Failure;

/// Options about the chat template.
#[derive(Debug, Args)]
pub(in crate::commands) struct TemplateArgs {
    /// Set the chat template to the contents of FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    chat_template: Option<PathBuf>,
    /// Pass more variables to the template, as a JSON object.
    #[arg(long, value_name = "JSON", hide_short_help = true)]
    kwargs: Option<String>,
    /// Turn on thinking.
    ///
    /// Sets the variables `enable_thinking` and `thinking` of the chat template to true. Default: as in the template.
    #[arg(long, conflicts_with = "no_think")]
    think: bool,
    /// Turn off thinking.
    #[arg(long)]
    no_think: bool,
}

impl TemplateArgs {
    /// Names of the arguments.
    pub(in crate::commands) const ALL: [&str; 4] = ["chat_template", "kwargs", "think", "no_think"];

    /// The options for the toolkit.
    ///
    /// # Errors
    /// A template that cannot be read, variables that are not a JSON object.
    pub(in crate::commands) fn options(&self) -> Result<ChatOptions, Failure> {
        let variables = self.kwargs.as_deref().map(serde_json::from_str).transpose();
        let variables = variables.map_err(|error| Failure::usage(format_args!("--kwargs: {error}")))?;
        Ok(ChatOptions {
            variables: variables.unwrap_or_default(),
            template_text: self.chat_template.as_deref().map(text_file::options).transpose()?,
            think: (self.think || self.no_think).then_some(self.think),
            ..ChatOptions::default()
        })
    }
}
