//! Perplexity of a GGUF file over a text: `cargo run --release --example perplexity -- FILE.gguf TEXT 512`.

use std::{env, error::Error};

use gguf_toolkit::{PerplexityOptions, Text, perplexity};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    println!("{:.4}", run(&args)?);
    Ok(())
}

/// Returns the perplexity over chunks of the given length.
pub fn run(args: &[String]) -> Result<f64, Box<dyn Error>> {
    let [file, text, context] = args else { return Err("give FILE TEXT CONTEXT".into()) };
    let mut options =
        PerplexityOptions { file: file.into(), text: Text::file(text), ..PerplexityOptions::default() };
    options.chunks.context = context.parse()?;
    Ok(perplexity(&options, &())?.perplexity.value())
}
