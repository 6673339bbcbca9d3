//! What `gguf-publish` is called with.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use convert::recipes::Recipe;

use super::ladder::Ladder;
use crate::{
    commands::shared::{eval_model::RunArgs, sizes::parse_size, values, write::output_parser},
    failure::Failure,
};

pub const EXAMPLES: &str = "\
Examples:
  gguf-publish Llama-3.2-1B out/Llama-3.2-1B-GGUF --eval wiki.test.raw
  gguf-publish hf://meta-llama/Llama-3.2-1B out/ --types q4_k_m,q6_k,q8_0 --calibration chats.jsonl --eval wiki.test.raw
  gguf-publish Llama-3.2-1B out/ --fit 8GB,12GB,16GB --ctx 32768 --eval wiki.test.raw
  gguf-publish model-BF16.gguf out/ --ladder full --drop-dominated --quantized-by me

DIR gets the files, their importance matrix and recipes, figures with a plot and a page, a model card and checksums: everything that
`hf upload-large-folder OWNER/NAME DIR` takes. DIR.work keeps what is not published: the base, the state of each stage, and what was
measured of each token. Called again, a run that was stopped goes on; with more --windows only these are run; other types are added to
those of earlier calls, and texts and lengths need not be repeated. Stages whose fingerprint is another one are done again.

Figures are honest about texts that were not calibrated on: give --eval a text of another kind than --calibration.

Exit codes: 0 done, 1 failed, 2 wrong call, 130 interrupted, 143 terminated, 129 hung up.";

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Checkpoint folder, hf://OWNER/MODEL[@REVISION], or a GGUF file that everything is made of.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub src: PathBuf,
    /// The folder to publish; made if it is not there.
    #[arg(value_hint = ValueHint::DirPath, value_parser = output_parser())]
    pub dir: PathBuf,
    /// Types to make, comma-separated. Those of earlier calls are kept.
    #[arg(short, long, value_name = "TYPE", value_delimiter = ',', value_parser = values::file_type(), hide_possible_values = true)]
    pub types: Vec<&'static Recipe>,
    /// Types to make, by the name of a ladder; small where nothing is said.
    #[arg(long, conflicts_with = "types")]
    pub ladder: Option<Ladder>,
    /// For each memory, as in 8GB,16GB, the largest type that fits.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, conflicts_with_all = ["types", "ladder"])]
    pub fit: Vec<u64>,
    /// Tokens of the context for --fit, and one of the lengths in the card.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    ctx: Option<u64>,
    /// A draft of the model to publish beside it (EAGLE 3, DFlash, DSpark): its checkpoint folder. Several if given several times.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub draft: Vec<PathBuf>,
    /// The type of the base; by default what the checkpoint stores, if it is f32, f16 or bf16, else bf16.
    #[arg(long, value_name = "TYPE", value_parser = values::file_type(), hide_possible_values = true)]
    pub base: Option<&'static Recipe>,
    /// Texts for the importance matrix; .jsonl are chats, in the form of the model's own template. Without it a small mix of our own.
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub calibration: Vec<PathBuf>,
    /// Windows of the calibration text to read at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub imatrix_windows: Option<u32>,
    /// No importance matrix.
    #[arg(long, conflicts_with_all = ["calibration", "imatrix_windows"])]
    pub no_imatrix: bool,
    /// The text to measure on. Without it a small one of our own.
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub eval: Vec<PathBuf>,
    /// Windows to measure at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: u32,
    /// Tokens in a window.
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    pub context: u32,
    /// Leave out files that are larger and worse than another.
    #[arg(long)]
    pub drop_dominated: bool,
    /// Bytes of tensors in a file at most; the Hub takes 50 GB.
    #[arg(long, value_name = "SIZE", default_value = "48GB", value_parser = parse_size)]
    pub split_max_size: u64,
    /// The repository of the source, as OWNER/NAME, for the card; hf:// sources name it themselves.
    #[arg(long, value_name = "REPO")]
    pub base_model: Option<String>,
    /// Who publishes, for the card.
    #[arg(long, value_name = "NAME")]
    pub quantized_by: Option<String>,
    /// Publish only the types of this call, without those of earlier calls.
    #[arg(long)]
    pub replace_types: bool,
    /// Write into a folder that is not empty, also over changed files.
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub run: RunArgs,
}

impl PublishArgs {
    /// The types that are named, each once, or those of a ladder.
    ///
    /// # Errors
    /// Never, but for a ladder with a name that is no type.
    pub fn named_types(&self) -> Result<Vec<&'static Recipe>, Failure> {
        if !self.fit.is_empty() {
            return Ok(Vec::new());
        }
        let mut types: Vec<&'static Recipe> = Vec::new();
        for recipe in &self.types {
            if !types.iter().any(|it| it.canonical_name() == recipe.canonical_name()) {
                types.push(recipe);
            }
        }
        if types.is_empty() { self.ladder.unwrap_or(Ladder::Small).types() } else { Ok(types) }
    }

    pub fn context(&self) -> usize {
        self.context as usize
    }

    /// Tokens that a budget is for.
    pub fn ctx(&self) -> u64 {
        self.ctx.unwrap_or(8192)
    }

    /// The context that was requested.
    pub fn asked_ctx(&self) -> Option<u64> {
        self.ctx
    }

    /// Lengths of the context for the card: some usual ones up to what the model was trained for, and the one that was asked for.
    pub fn contexts(&self, trained: u64) -> Vec<u64> {
        let usual = [4096, 8192, 32_768, 131_072];
        let mut contexts: Vec<u64> =
            usual.into_iter().filter(|context| trained == 0 || *context <= trained).collect();
        if contexts.is_empty() {
            contexts.push(trained);
        }
        contexts.extend(self.ctx);
        contexts.sort_unstable();
        contexts.dedup();
        contexts
    }
}
