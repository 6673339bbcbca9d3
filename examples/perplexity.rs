//! Perplexity of a GGUF file over a text: `cargo run --release --example perplexity -- FILE.gguf TEXT 512`.

use std::{env, error::Error, fs, path::Path};

use gguf_runtime::{Model, Options, chunks::Settings, perplexity::measure};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    println!("{:.4}", run(&args)?);
    Ok(())
}

/// Gives the perplexity over windows of so many tokens.
pub fn run(args: &[String]) -> Result<f64, Box<dyn Error>> {
    let [file, text, context] = args else { return Err("give FILE TEXT CONTEXT".into()) };
    let model = Model::open(Path::new(file), &Options::default())?;
    let tokens = model.tokenizer().encode(fs::read(text)?, true, false)?;
    let settings = Settings { context: context.parse()?, ..Settings::default() };
    Ok(measure(&model, &tokens, &settings, &mut |_| {})?.value())
}
