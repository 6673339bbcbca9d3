//! `gguf-inspect hash FILE...`: digests of files and of tensors, as `sha256sum` writes and checks them.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::{Args, ValueHint};
use gguf::{Advice, File, TensorInfo};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    commands::{
        Command,
        shared::{
            digest::hex,
            outputs::{check_outputs, write_result},
            text_file,
            write::output_parser,
        },
        show,
    },
    failure::Failure,
    ui::{Ui, cancel_on_interrupt},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("hash"),
    about: "Compute or verify SHA-256 checksums of files and tensors",
    examples: EXAMPLES,
    define: HashArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect hash model-*.gguf --output SHA256SUMS
  gguf-inspect hash --check SHA256SUMS
  gguf-inspect hash model.gguf --tensors

The output has the format of sha256sum, which can verify it.";

#[derive(Debug, Args)]
struct HashArgs {
    /// GGUF files; with --check they are named in LIST.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "check", conflicts_with = "check")]
    files: Vec<PathBuf>,
    /// Also report the quantization error of each tensor.
    ///
    /// Adds a line FILE:TENSOR for each tensor and a line FILE:* for all of them. A digest covers the data of the tensor only, in
    /// little-endian order, so metadata and the order of tensors do not matter. FILE:* is the digest of the lines (digest, name,
    /// type, shape) sorted by name.
    #[arg(long, conflicts_with = "check")]
    tensors: bool,
    /// Verify the digests in LIST.
    ///
    /// The exit code is 1 if a file differs or is missing.
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    check: Option<PathBuf>,
    /// Write the result to FILE.
    ///
    /// Default: stdout.
    #[arg(short, long, alias = "write", value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_parser(), conflicts_with_all = ["check", "json"])]
    output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn run(args: HashArgs, ui: &Ui) -> Result<(), Failure> {
    match &args.check {
        Some(list) => check(list, &args, ui),
        None => make(&args, ui),
    }
}

/// A name and its digest.
type Line = (String, String);

fn make(args: &HashArgs, ui: &Ui) -> Result<(), Failure> {
    if let Some(list) = &args.output {
        check_outputs(&[list], &args.files, args.force)?;
    }
    let mut lines = Vec::new();
    for path in &args.files {
        // A name that is not UTF-8 would be another one in the list.
        let Some(name) = path.to_str() else {
            return Err(Failure::at(path, "the name is not UTF-8"));
        };
        // Only GGUF files: a file with a damaged header should not get a digest. Tensors of unknown size have
        // no separate digest.
        let file = if args.tensors { show::open(path)? } else { show::open_foreign(path)? };
        lines.push((name.to_owned(), of_file(path, ui)?));
        if args.tensors {
            lines.extend(of_tensors(name, &file, ui)?);
        }
    }
    if args.json {
        let json: serde_json::Map<_, _> =
            lines.into_iter().map(|(name, digest)| (name, json!(digest))).collect();
        return ui.json(&json);
    }
    let text: String = lines.iter().map(|(name, digest)| line(name, digest)).collect();
    match &args.output {
        None => ui.data(&text),
        Some(list) => write_result(list, text.as_bytes(), args.force),
    }
}

/// A line as `sha256sum` writes it; it marks names with line ends and backslashes, and escapes those.
fn line(name: &str, digest: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let mark = if escaped == name { "" } else { "\\" };
    format!("{mark}{digest}  {escaped}\n")
}

/// The reverse of [`line`]; none for what is no such line.
fn parse(line: &str) -> Option<Line> {
    let (line, is_escaped) = line.strip_prefix('\\').map_or((line, false), |rest| (rest, true));
    let (digest, name) = line.split_at_checked(64)?;
    // Two spaces, or a space and a star for binary.
    let name = name.strip_prefix("  ").or_else(|| name.strip_prefix(" *"))?;
    if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) || name.is_empty() {
        return None;
    }
    let mut plain = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        plain.push(match (c, is_escaped) {
            ('\\', true) => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            (c, _) => c,
        });
    }
    Some((plain, digest.to_ascii_lowercase()))
}

fn of_file(path: &Path, ui: &Ui) -> Result<String, Failure> {
    let cancel = cancel_on_interrupt();
    let failed = |error| Failure::cannot_open(path, error);
    let mut file = fs::File::open(path).map_err(failed)?;
    let progress = ui.progress(file.metadata().map_err(failed)?.len());
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                progress.add(n as u64);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::at(path, format_args!("cannot read: {error}"))),
        }
    }
}

fn of_tensor(file: &File, info: &TensorInfo) -> Result<String, Failure> {
    let data = file.data(info).map_err(Failure::new)?;
    let start = file.range(info).map_err(Failure::new)?.start;
    let mut hasher = Sha256::new();
    // Whole blocks at a time, whose bytes can be turned.
    let step = info.dtype.whole_blocks(4 << 20) as usize;
    for (index, piece) in data.chunks(step).enumerate() {
        hasher.update(file.endian().to_little(info.dtype, piece));
        let from = start + index * step;
        file.bytes().advise(Advice::DoneWith, from..from + piece.len());
    }
    Ok(hex(&hasher.finalize()))
}

/// A line for each tensor, and one for all.
fn of_tensors(name: &str, file: &File, ui: &Ui) -> Result<Vec<Line>, Failure> {
    let cancel = cancel_on_interrupt();
    let progress = ui.progress(file.tensors().iter().map(|info| info.n_bytes).sum());
    let (mut lines, mut described) = (Vec::new(), Vec::new());
    for info in file.tensors() {
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        let digest = of_tensor(file, info)?;
        progress.add(info.n_bytes);
        // Dimensions of 1 at the end are written by some programs and not by others.
        let shape = info.shape.without_trailing_ones();
        described.push((info.name.clone(), format!("{digest}  {} {} {shape}\n", info.name, info.dtype)));
        lines.push((format!("{name}:{}", info.name), digest));
    }
    described.sort_unstable();
    let mut all = Sha256::new();
    described.iter().for_each(|(_, line)| all.update(line));
    lines.push((format!("{name}:*"), hex(&all.finalize())));
    Ok(lines)
}

fn check(list: &Path, args: &HashArgs, ui: &Ui) -> Result<(), Failure> {
    let text = text_file::options(list)?;
    let mut results = Vec::new();
    // Digests of all tensors of the file that the last lines were about.
    let mut known: (String, Vec<Line>) = (String::new(), Vec::new());
    for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.is_empty()) {
        let Some((name, expected)) = parse(text) else {
            return Err(Failure::at(
                list,
                format_args!("line {}: expected a checksum and a file name", index + 1),
            ));
        };
        let found = match Path::new(&name).is_file() {
            true => Some(of_file(Path::new(&name), ui)?),
            false => of_named_tensor(&name, &mut known, ui)?,
        };
        let state = match found {
            Some(found) if found == expected => "OK",
            Some(_) => "FAILED",
            None => "MISSING",
        };
        results.push((name, state));
    }
    if results.is_empty() {
        return Err(Failure::at(list, "empty list"));
    }
    let n_bad = results.iter().filter(|(_, state)| *state != "OK").count();
    let n_all = results.len();
    if args.json {
        let json: serde_json::Map<_, _> =
            results.into_iter().map(|(name, state)| (name, json!(state))).collect();
        ui.json(&json)?;
    } else {
        let lines: String = results
            .iter()
            .map(|(name, state)| format!("{}: {state}\n", crate::ui::printable(name)))
            .collect();
        ui.data(&lines)?;
    }
    match n_bad {
        0 => Ok(()),
        _ => Err(Failure::at(
            list,
            format_args!("{n_bad} of {n_all} files have a wrong checksum or are missing"),
        )),
    }
}

/// The digest of `FILE:TENSOR`; none where there is no such file or tensor.
fn of_named_tensor(name: &str, known: &mut (String, Vec<Line>), ui: &Ui) -> Result<Option<String>, Failure> {
    // Both names may hold colons: the file is the longest beginning that is one.
    let mut ends = name.match_indices(':').map(|(at, _)| at);
    let Some(at) = ends.rfind(|at| Path::new(&name[..*at]).is_file()) else { return Ok(None) };
    let file = &name[..at];
    if known.0 != file {
        *known = (file.to_owned(), of_tensors(file, &show::open(Path::new(file))?, ui)?);
    }
    Ok(known.1.iter().find(|(of, _)| of == name).map(|(_, digest)| digest.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_match_sha256sum() {
        let digest = "0".repeat(64);
        for name in ["model.gguf", "a b", "with\\backslash", "two\nlines", "x.gguf:blk.0.attn_q.weight"] {
            assert_eq!(parse(line(name, &digest).trim_end()), Some((name.to_owned(), digest.clone())));
        }
        assert_eq!(line("a\\b", &digest), format!("\\{digest}  a\\\\b\n"));
        for bad in ["", "x", &digest, &format!("{digest} x"), &format!("{}  x", "g".repeat(64))] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
