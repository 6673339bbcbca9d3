//! A GGUF file to one of another type: `cargo run --release --example quantize -- IN.gguf OUT.gguf q8_0`.

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
    let [file, out, recipe] = args else { return Err("give IN OUT TYPE".into()) };
    let conversion = Conversion::open_gguf(file)?.recipe(recipe)?;
    Ok(conversion.plan()?.check()?.write(out, &RunOptions::default())?)
}
