//! A checkpoint folder to a GGUF file: `cargo run --release --example convert -- DIR OUT.gguf q4_k_m`.

use std::{env, error::Error, path::PathBuf};

use gguf_toolkit::Convert;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    for path in run(&args)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Returns the paths of the written files.
pub fn run(args: &[String]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let [dir, out, file_type] = args else { return Err("give DIR OUT TYPE".into()) };
    let mut convert = Convert::new(dir, [file_type.parse()?]);
    convert.output.out = Some(out.into());
    Ok(convert.run(&())?.paths())
}
