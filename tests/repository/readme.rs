//! The tables of `docs/reference/architectures.md` and `docs/reference/projectors.md` and the counts in the README are printed from the registries,
//! and guides show programs that are files elsewhere. `BLESS=1 cargo test --test all repository::readme` writes them anew.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use gguf_checkpoint::FORMATS;
use gguf_conversion::recipes::RECIPES;
use gguf_layout::Arch;
use gguf_models::{ARCHES, PROJECTORS};
use gguf_toolkit::memory::SHARES;
use gguf_tools::commands::llama_cpp::{PROGRAMS, To};

fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn table() -> String {
    let mut out = String::from("| what | supported |\n|---|---|\n");
    let read = FORMATS.iter().filter(|format| format.is_read()).map(|format| format.name);
    let _ = writeln!(out, "| input | {} |", joined(read));
    let _ = writeln!(
        out,
        "| run by `gguf-eval` | {} |",
        joined(gguf_models::GRAPHS.architectures.iter().map(|row| row.name))
    );
    let _ = writeln!(
        out,
        "| run by `gguf-eval draft` | {} |",
        joined(gguf_models::GRAPHS.drafts.iter().map(|row| row.name))
    );
    let recipes = RECIPES.iter().filter(|recipe| recipe.alias_of.is_none()).map(|recipe| recipe.name);
    let _ = writeln!(out, "| file types | {} |", joined(recipes));
    let mut dtypes: BTreeMap<bool, Vec<&str>> = BTreeMap::new();
    for codec in gguf_quant::CODECS {
        let both = codec.encode.is_some() && codec.dtype.is_encodable();
        dtypes.entry(both).or_default().push(codec.dtype.name());
    }
    for (both, names) in dtypes.into_iter().rev() {
        let _ = writeln!(
            out,
            "| dtypes {} | {} |",
            if both { "written and read" } else { "read" },
            joined(names)
        );
    }
    out.push_str("\n| architecture | classes | `gguf-convert export` | `gguf-eval` |\n|---|---|---|---|\n");
    for arch in ARCHES {
        let classes = arch.classes.iter().map(|class| class.name);
        let export = arch.export.obstacle().map_or("yes".to_owned(), |reason| format!("no: {reason}"));
        let _ = writeln!(out, "| `{}` | {} | {export} | {} |", arch.name, joined(classes), run_by(arch));
    }
    out
}

/// True if files of a row can be run, alone or as the draft of another model.
fn is_run(arch: &Arch) -> bool {
    (is_model(arch) || is_draft(arch)) && obstacle(arch).is_none()
}

fn is_model(arch: &Arch) -> bool {
    gguf_models::GRAPHS.architectures.iter().any(|row| row.name == arch.written())
}

fn is_draft(arch: &Arch) -> bool {
    gguf_models::GRAPHS.drafts.iter().any(|row| row.name == arch.written())
}

/// Rows whose files cannot be run although their architecture has a graph, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("d1-omni", "its head scores options"),
    ("deepseek4-dspark", "a draft with several residual streams"),
    ("julia", "its head scores options"),
    ("laya", "its head scores options"),
    ("lfm2-audio-tokenizer", "it decodes audio"),
];

/// Reason why files of a row cannot be run although their architecture has a graph.
fn obstacle(arch: &Arch) -> Option<&'static str> {
    NOT_RUN.iter().find(|(name, _)| *name == arch.name).map(|(_, reason)| *reason)
}

/// Cell of the column `gguf-eval`.
fn run_by(arch: &Arch) -> String {
    if let Some(reason) = obstacle(arch) {
        return format!("no: {reason}");
    }
    match (is_model(arch), is_draft(arch)) {
        (true, _) if arch.written() == arch.name => "yes".to_owned(),
        (true, _) => format!("yes, as `{}`", arch.written()),
        (false, true) => "yes, as a draft".to_owned(),
        (false, false) if arch.draft.is_some() => "no: a draft without a graph".to_owned(),
        (false, false) => "no: it has no graph".to_owned(),
    }
}

fn projectors() -> String {
    let mut out = String::from("| projector | classes | images | sound | example |\n|---|---|---|---|---|\n");
    let yes = |has: bool| if has { "yes" } else { "" };
    for row in PROJECTORS {
        let (vision, audio) = (yes(row.vision.is_some()), yes(row.audio.is_some()));
        let classes = joined(row.classes.iter().copied());
        let _ = writeln!(out, "| `{}` | {classes} | {vision} | {audio} | {} |", row.name, row.example);
    }
    out
}

fn counts() -> String {
    let classes = ARCHES.iter().flat_map(|arch| arch.classes.iter().map(|class| class.name));
    let n_classes = classes.collect::<std::collections::BTreeSet<_>>().len();
    let n_exported = ARCHES.iter().filter(|arch| arch.export.obstacle().is_none()).count();
    let n_run = ARCHES.iter().filter(|arch| is_run(arch)).count();
    let n_types = RECIPES.iter().filter(|recipe| recipe.alias_of.is_none()).count();
    format!(
        "`gguf-convert` supports {} architectures ({n_classes} model classes) and can export {n_exported} of \
            them. `gguf-eval` runs {n_run} of them.\nThere are {n_types} file types and {} tensor types.\n",
        ARCHES.len(),
        gguf_quant::CODECS.len(),
    )
}

/// Translation of the options of llama.cpp's programs, from the tables that calls are translated with.
fn foreign_options() -> String {
    let mut out = String::new();
    for program in PROGRAMS {
        let (n_accepted, n_others) = (program.options().count(), program.without().count());
        let ours = [Some(program.binary), program.verb].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            out,
            "### `{}` is `{ours}`\n\n{n_accepted} of its {} options work.\n\n| option | here |\n|---|---|",
            program.name,
            n_accepted + n_others
        );
        for row in program.rows.iter().copied().flatten() {
            let options: Vec<String> = row.options.iter().map(|text| format!("`{text}`")).collect();
            let words = |words: &[&str]| format!("`{}`", words.join(" "));
            let here = match row.to {
                To::Same => "the same".to_owned(),
                To::Option(long, []) => words(&[long]),
                To::Option(long, left_out) => format!("`{long}`; left out with {}", left_out.join(" or ")),
                To::Each(long) => format!("`{long}`, once for each name between commas"),
                To::Argument(at) => {
                    ["the first argument", "the second argument", "the third argument"][at].to_owned()
                }
                To::Words(it) => words(it),
                To::Whole(it) => format!("`{} {}`", program.binary, it.join(" ")),
                To::Anyway(why) => format!("default behavior: {why}"),
                To::Arranged(what) => what.to_owned(),
                To::Unknown => continue,
            };
            let _ = writeln!(out, "| {} | {here} |", options.join(", "));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Differences of converted files from those of the reference's converter.
fn departures() -> String {
    let shared = gguf_layout::departure::SHARED.iter().copied().chain(gguf_layout::late_keys::rows());
    let rows = shared.chain(gguf_models::DEPARTURES);
    let mut lines: Vec<String> =
        rows.map(|row| format!("| `{}` | {} | {} |\n", row.subject, row.files, row.reason)).collect();
    lines.sort();
    lines.dedup();
    format!("| key or tensor | files | here |\n|---|---|---|\n{}", lines.concat())
}

/// Cost of each type, like in `--help`.
fn types() -> String {
    let mut out = String::from(
        "Bits are bits per weight of Qwen3 14B with the types that the reference chooses. KL divergence is the mean \
         from f32, in nats, of a GPT-2 model with 11 million parameters, trained in full precision with rows of 256 (PyPI \
         microformer-mgm 0.5.8), over 48 chunks of 128 tokens that the model generated. Such a small model loses far \
         more than usual models; use the table for the order of the types. `scripts/measure-types` measures \
         it.\n\n| type | bits | bits of the GPT-2 | KL divergence | with an importance matrix | \
         |\n|---|---:|---:|---:|---:|---|\n",
    );
    for line in include_str!("../../src/commands/shared/types_measured.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let [name, bits, own, plain, weighted] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let recipe = RECIPES.iter().find(|recipe| recipe.name == name).unwrap();
        let _ = writeln!(out, "| {name} | {bits} | {own} | {plain} | {weighted} | {} |", recipe.about);
    }
    out
}

/// The first file of the dry run in `tests/snapshots` as a picture of a terminal.
fn dry_run() -> String {
    let text = include_str!("../snapshots/gguf-convert-dry-run.txt");
    let (first, _) = text.split_once("\n\nout/").unwrap();
    let command = "$ gguf-convert llama out/ --type q4_k_m --dry-run";
    let lines: Vec<String> =
        [command, ""].into_iter().chain(first.lines()).map(|line| line.chars().take(104).collect()).collect();
    let height = 16 * lines.len() + 24;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {height}\" font-family=\"monospace\" \
            font-size=\"12\">\n<rect width=\"800\" height=\"{height}\" rx=\"6\" fill=\"#1b1f23\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let line = line.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            out,
            "<text x=\"14\" y=\"{}\" fill=\"#e4e7ea\" xml:space=\"preserve\">{line}</text>",
            24 + 16 * row
        );
    }
    out + "</svg>\n"
}

/// Compares a complete file with what it should be, or writes it.
fn check_file(file: &str, want: &str) {
    gguf_testkit::check_written(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), want);
}

/// Compares what stands between `<!-- NAME -->` and `<!-- /NAME -->` in a file, or writes it.
fn check(file: &str, name: &str, want: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path).unwrap();
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (before, rest) = text.split_once(&start).expect("the start is marked");
    let (_, after) = rest.split_once(&end).expect("the end is marked");
    gguf_testkit::check_written(&path, &format!("{before}{start}{want}{end}{after}"));
}

#[test]
fn generated_tables_match_registries() {
    check("docs/reference/architectures.md", "table", &table());
    check("docs/reference/projectors.md", "projectors", &projectors());
    check("docs/guides/coming-from-llama-cpp.md", "options", &foreign_options());
    check("docs/guides/choosing-a-type.md", "types", &types());
    let shares = SHARES.map(|(file_type, percent)| format!("| {file_type} | {percent} % |\n"));
    let shares = format!("| type | largest share of the memory |\n|---|---:|\n{}", shares.concat());
    check("docs/guides/choosing-a-type.md", "shares", &shares);
    check("docs/reference/differences.md", "departures", &departures());
    check_file("docs/images/dry-run.svg", &dry_run());
    check("README.md", "counts", &counts());
}

#[test]
fn guides_show_programs_and_readmes() {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    for (guide, file, language) in [
        ("rust-tool", "examples/tool.rs", "rust,ignore"),
        ("python-tool", "python/examples/tool.py", "python"),
    ] {
        check(&format!("docs/guides/{guide}.md"), "program", &format!("```{language}\n{}```\n", read(file)));
    }
    for (guide, file) in [("library", "crates/toolkit/README.md"), ("python", "python/README.md")] {
        let text = read(file);
        let (_title, text) = text.split_once("\n\n").unwrap();
        check(&format!("docs/guides/{guide}.md"), "readme", text);
    }
}
