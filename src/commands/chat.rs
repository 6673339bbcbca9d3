//! `gguf-eval chat FILE|DIR|MODEL [TEXT]`: a chat of several turns, or one answer.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Args;
use gguf_toolkit::{
    ChatSession, ChatSessionOptions, Model,
    convert::gguf_of,
    run::{ChatAnswer, End, Sampling, recommended_sampling},
};

use super::shared::{
    eval_args::{LoraArgs, RunArgs, options},
    hub::hub_options,
    sampling_args::SamplingArgs,
    template_args::TemplateArgs,
};
use crate::{
    commands::Command,
    failure::Failure,
    ui::{StoppableAnswer, Ui},
    word_wrap::WordWrap,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("chat"),
    about: "Chat with a model in the terminal",
    // As in other programs.
    define: |command| ChatArgs::augment_args(command).alias("run"),
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct ChatArgs {
    /// GGUF file, checkpoint folder or hf://OWNER/MODEL[@REVISION].
    ///
    /// Any shard of a split model works. A checkpoint is converted first, as by `gguf-convert` without --type; the file stays in the
    /// current folder and is used again.
    #[arg(value_name = "FILE|DIR|MODEL")]
    file: PathBuf,
    /// Answer this message and exit.
    #[arg(value_name = "TEXT")]
    message: Vec<String>,
    /// Set the system message.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    template: TemplateArgs,
    /// Generate at most N tokens.
    ///
    /// Default: 128 in `generate`; in `chat`, the rest of the model's context, unless the answer repeats itself.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Print the result as JSON.
    ///
    /// One line per answer.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    adapters: LoraArgs,
    #[command(flatten)]
    run: RunArgs,
}

const COMMANDS: &str = "/help, /reset, /system TEXT, /bye";
const HELP: &[&str] = &[
    "/reset        forget the chat",
    "/system TEXT  set the system message; without TEXT, remove it",
    "/bye          end the program, like /exit and Ctrl-D",
    "Ctrl-C        stop an answer",
    "\\             at the end of a line: continue the message on the next line",
];

fn run(args: ChatArgs, ui: &Ui) -> Result<(), Failure> {
    let template = args.template.options()?;
    let file = gguf_of(&args.file, &hub_options(), ui)?;
    let model = Model::open_with(&file, &options(&args.run, &args.adapters)?, ui)?;
    let recommended = Sampling { seed: random_seed(), ..recommended_sampling(model.metadata()) };
    let options = ChatSessionOptions {
        system: args.system,
        max_tokens: args.tokens.map(|n| n as usize),
        sampling: Some(args.sampling.or(recommended)),
        template,
    };
    let mut chat = ChatSession::new(&model, &options, ui).map_err(|error| {
        let has_template = model.metadata().contains("tokenizer.chat_template");
        error.hint((!has_template).then_some("pass a template with --chat-template FILE"))
    })?;
    let interactive = ui.is_interactive() && args.message.is_empty();
    let Sampling { temperature, top_k, top_p, min_p, .. } = chat.sampling();
    if temperature > 0.0 {
        let source = match args.sampling.temperature {
            Some(_) => "",
            None if model.metadata().contains("general.sampling.temp") => " (of the file)",
            None => " (default)",
        };
        let advice = "--temperature 0 for the most likely answer";
        ui.status(&format!(
            "temperature {temperature}{source}, top-k {top_k}, top-p {top_p}, min-p {min_p}; {advice}"
        ));
    }
    if !args.message.is_empty() {
        return answer(&mut chat, &args.message.join(" "), args.json, ui);
    }
    if interactive {
        ui.status(&format!("commands: {COMMANDS}; Ctrl-C stops an answer"));
    }
    while let Some(message) = ui.read_message()? {
        match Input::of(&message) {
            Input::Empty => {}
            Input::Exit => break,
            Input::Help => HELP.iter().for_each(|line| ui.status(line)),
            Input::Reset => chat.reset(),
            Input::System(text) => {
                chat.set_system((!text.is_empty()).then(|| text.to_owned()));
                chat.warn_of_system(ui);
            }
            Input::Unknown(command) => {
                ui.warning(&format!("unknown command `{command}`; expected {COMMANDS}"))
            }
            Input::Message => match answer(&mut chat, &message, args.json, ui) {
                Err(failure) if interactive => ui.failure(&failure),
                answered => answered?,
            },
        }
    }
    Ok(())
}

/// A line of the user.
enum Input<'a> {
    Empty,
    Exit,
    Help,
    Reset,
    System(&'a str),
    Unknown(&'a str),
    Message,
}

impl Input<'_> {
    fn of(line: &str) -> Input<'_> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => Input::Empty,
            "/exit" | "/quit" | "/bye" if rest.is_empty() => Input::Exit,
            "/help" | "/?" if rest.is_empty() => Input::Help,
            "/reset" | "/clear" if rest.is_empty() => Input::Reset,
            "/system" => Input::System(rest.trim()),
            // A path may be the start of a message.
            word if word.strip_prefix('/').is_some_and(|word| !word.contains(['/', '.'])) => {
                Input::Unknown(word)
            }
            _ => Input::Message,
        }
    }
}

fn answer(chat: &mut ChatSession<&Model>, message: &str, json: bool, ui: &Ui) -> Result<(), Failure> {
    let stoppable = StoppableAnswer::begin();
    let mut failure = None;
    let mut wrap = WordWrap::new(ui.data_width());
    let mut print = |text: &str| {
        let printed = if json { Ok(()) } else { ui.data(&wrap.push(text)) };
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let answer = chat.ask(message, &mut print, &|| stoppable.is_stopped())?;
    drop(stoppable);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if json {
        return ui.json_line(&answer);
    }
    ui.data(&(wrap.finish() + "\n"))?;
    let ChatAnswer { n_tokens, n_prompt, n_reused, seconds, tokens_per_second, end, .. } = answer;
    let rate = tokens_per_second.map_or(String::new(), |rate| format!(", {rate:.1} per second"));
    // The first token comes with the prompt.
    let of_others = tokens_per_second.map_or(0.0, |rate| (n_tokens as f64 - 1.0) / rate);
    let of_prompt = seconds - of_others;
    let reused = if n_reused > 0 { format!(", {n_reused} reused") } else { String::new() };
    let end = match end {
        End::Stop => "",
        End::Length => "; stopped at the limit",
        End::Repetition => {
            "; stopped because the answer repeats itself; to continue, pass --tokens; for another answer, --repeat-penalty 1.1"
        }
        End::Interrupted => "; interrupted",
    };
    ui.status(&format!(
        "{n_tokens} tokens{rate} (prompt: {n_prompt} tokens{reused} in {of_prompt:.1} s){end}"
    ));
    Ok(())
}

/// A seed that differs from call to call.
fn random_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
