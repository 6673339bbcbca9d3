//! A GGUF file to one of another type: `cargo run --release --example quantize -- IN.gguf OUT.gguf q8_0`.

use std::{env, error::Error, path::PathBuf};

use gguf_toolkit::Quantize;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    for path in run(&args)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Returns the paths of the written files.
pub fn run(args: &[String]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let [file, out, file_type] = args else { return Err("give IN OUT TYPE".into()) };
    let mut quantize = Quantize::new(file, [file_type.parse()?]);
    quantize.output.out = Some(out.into());
    Ok(quantize.run(&())?.paths())
}
