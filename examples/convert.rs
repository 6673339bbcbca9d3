//! A checkpoint folder to a GGUF file: `cargo run --release --example convert -- DIR OUT.gguf q4_k_m`.

use std::{env, error::Error, path::PathBuf};

use gguf_conversion::{Conversion, RunOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    for path in run(&args)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Gives the paths that were written.
pub fn run(args: &[String]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let [dir, out, recipe] = args else { return Err("give DIR OUT TYPE".into()) };
    let conversion = Conversion::open(dir)?.recipe(recipe)?;
    Ok(conversion.plan()?.check()?.write(out, &RunOptions::default())?)
}
