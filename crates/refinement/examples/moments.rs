//! Collects the Hessians of a model and prints time and memory: `moments MODEL.gguf TEXT N_WINDOWS [THREADS
//! [FOLDER]]`.

use std::{path::Path, time::Instant};

use gguf_refinement::{
    Error,
    moments::{Found, MomentsCache, Options, Plan, Texts, Watch, gather},
};
use gguf_runtime::{Model, chunks::Settings};

struct Count(usize);

impl Watch for Count {
    fn found(&mut self, found: Found) -> Result<(), Error> {
        self.0 += found.inputs.len();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, text, n_windows, rest @ ..] = &args[..] else {
        return Err("moments MODEL.gguf TEXT N_WINDOWS [THREADS [FOLDER]]".into());
    };
    let threads = rest.first().map(|threads| threads.parse()).transpose()?;
    let model = Model::open(
        Path::new(file),
        &gguf_runtime::Options { threads, ..gguf_runtime::Options::new(gguf_models::GRAPHS) },
    )?;
    let settings = Settings { n_chunks: Some(n_windows.parse()?), ..Settings::default() };
    let texts = Texts::from_text(&model, &std::fs::read(text)?, &settings)?;
    let options = Options::default();
    let plan = Plan::new(&model, &texts, &options)?;
    let mb = |n_bytes: u64| n_bytes as f64 / 1e6;
    println!(
        "{} tokens; sums {:.0} MB, between layers {:.0} MB{}, a batch {:.0} MB; {} rounds of {} batches; files {:.0} MB",
        texts.n_tokens(),
        mb(plan.gram_bytes),
        mb(plan.state_bytes),
        if plan.is_spilled { " on the disk" } else { "" },
        mb(plan.working_bytes),
        plan.n_rounds(),
        plan.n_batches(),
        mb(plan.file_bytes),
    );
    let folder = rest.get(1).map(Path::new);
    let cache = folder.map(|folder| MomentsCache::open(folder, &model, &texts, &options, &plan));
    let (begun, mut count) = (Instant::now(), Count(0));
    let summary = gather(&model, &texts, &options, &plan, cache.transpose()?.as_mut(), &mut count)?;
    println!(
        "{} inputs in {:.1} s; {} with few tokens, {} experts without, {} with dead columns",
        count.0,
        begun.elapsed().as_secs_f64(),
        summary.few.len(),
        summary.unreached.len(),
        summary.dead.len(),
    );
    Ok(())
}
