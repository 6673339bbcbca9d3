//! Division of a run's jobs into shares of about equal cost.

use std::{collections::BTreeMap, time::Instant};

use gguf_container::PartNumber;
use gguf_quant::{Level, Rows};
use gguf_types::DType;

use crate::job::{Job, Schedule, Target, TensorTask};

/// Time that one core needs to encode an element, in picoseconds, by type; types with importance weights
/// separately.
///
/// Measured once by the machine that makes the plan and stored in it, because every machine must compute the
/// same shares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<String, u64>);

/// Sample that is encoded to measure: its rows are a multiple of every block, and it takes a millisecond.
const SAMPLE_ROWS: usize = 8;
const SAMPLE_ELEMS: usize = 1024;

impl Rates {
    /// Rates stored in a plan.
    pub fn new(by_type: BTreeMap<String, u64>) -> Rates {
        Rates(by_type)
    }

    /// Picoseconds per element by type.
    pub fn by_type(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    /// Measures the types of all targets.
    pub fn measure(tasks: &[TensorTask<'_>], level: Level) -> Rates {
        let mut rates = Rates::default();
        // A model has few types; each is measured at its first target.
        for target in tasks.iter().flat_map(|task| &task.targets) {
            rates
                .0
                .entry(name(target))
                .or_insert_with(|| measure(target.dtype, target.weights.is_some(), level));
        }
        rates
    }

    /// Cost of a job. Bytes are weighted for a machine that reads a gigabyte per second with eight cores:
    /// closer to a real cluster than counting only bytes or only elements.
    fn cost(&self, task: &TensorTask<'_>, job: &Job) -> u128 {
        const PS_OF_A_BYTE: u64 = 8 * 1000;
        // cost = 8000 (bytes read + bytes written) + sum over targets of elements * rate, in picoseconds of
        // one core. For a terabyte, the cost times the number of parts exceeds 64 bits.
        let n_rows = job.rows.end - job.rows.start;
        let n_elems = n_rows.saturating_mul(task.rows.view().row_elems);
        let target_cost = |target: &Target<'_>| {
            let n_bytes = n_elems / target.dtype.block_elems() * target.dtype.block_bytes();
            // A type missing from the plan costs only its bytes, on all machines.
            let rate = self.0.get(&name(target)).copied().unwrap_or(0);
            u128::from(n_bytes) * u128::from(PS_OF_A_BYTE) + u128::from(n_elems) * u128::from(rate)
        };
        let input_cost = u128::from(task.rows.input_bytes(n_rows)) * u128::from(PS_OF_A_BYTE);
        input_cost + task.targets.iter().map(target_cost).sum::<u128>()
    }
}

fn name(target: &Target<'_>) -> String {
    let with = if target.weights.is_some() { " with weights" } else { "" };
    format!("{}{with}", target.dtype.name())
}

fn measure(dtype: DType, is_weighted: bool, level: Level) -> u64 {
    const N: usize = SAMPLE_ROWS * SAMPLE_ELEMS;
    // Any values that are not all equal.
    let value = |index: usize| ((index * 7919) % 2003) as f32 / 1000.0 - 1.0;
    let values: Vec<f32> = (0..N).map(value).collect();
    let weights = vec![1.0; SAMPLE_ELEMS];
    let weights = is_weighted.then_some(&weights[..]);
    // The sample is a multiple of every block.
    let mut out = vec![0; N / dtype.block_elems() as usize * dtype.block_bytes() as usize];
    // The first round initializes tables and memory.
    let times = (0..3).filter_map(|_| {
        let began = Instant::now();
        let rows = Rows { values: &values, row_elems: SAMPLE_ELEMS, weights };
        gguf_quant::encode(dtype, level, rows, &mut out).ok()?;
        u64::try_from(began.elapsed().as_nanos()).ok()
    });
    times.min().map_or(0, |nanoseconds| nanoseconds * 1000 / N as u64)
}

/// Consecutive jobs of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Task and first row of the first job.
    from: (usize, u64),
    /// Position of the first job after the share.
    to: (usize, u64),
}

impl Share {
    /// The share of a part. Shares have about equal costs, are consecutive and cover everything; their
    /// boundaries are at most half a job from the ideal.
    pub fn new(tasks: &[TensorTask<'_>], schedule: &Schedule, rates: &Rates, part: PartNumber) -> Share {
        let cost = |job: &Job| rates.cost(&tasks[job.task], job);
        let total: u128 = schedule.jobs().map(|job| cost(&job)).sum();
        let count = u128::from(part.count());
        // Part k of N begins with the first job whose middle lies beyond (k - 1) / N of the total cost:
        // before + cost / 2 >= total (k - 1) / N. Integers only, so that all machines round alike.
        let mut first = vec![None; part.count() as usize];
        let (mut before, mut n_begun) = (0u128, 0u128);
        for job in schedule.jobs() {
            let cost = cost(&job);
            let middle = 2 * before + cost;
            while n_begun < count && middle * count >= 2 * total * n_begun {
                first[n_begun as usize] = Some((job.task, job.rows.start));
                n_begun += 1;
            }
            before += cost;
        }
        let end = (tasks.len(), 0);
        // An empty part begins after the last job, and the part before it ends there.
        let first = |number: u32| first.get(number as usize).copied().flatten().unwrap_or(end);
        Share { from: first(part.number() - 1), to: first(part.number()) }
    }

    /// True if a job belongs to the share.
    pub fn has(&self, job: &Job) -> bool {
        (self.from..self.to).contains(&(job.task, job.rows.start))
    }
}

#[cfg(test)]
mod tests {
    use gguf_container::Endian;
    use gguf_layout::RowView;

    use super::*;
    use crate::{Error, job::JOB_ELEMS, rows::RowSource};

    /// Rows with a size but no values.
    #[derive(Debug)]
    struct Sized(u64, u64);

    impl RowSource for Sized {
        fn view(&self) -> RowView {
            RowView { n_rows: self.0, row_elems: self.1 }
        }

        fn read(&self, _: std::ops::Range<u64>, _: Level, _: &mut [f32]) -> Result<(), Error> {
            Err(Error::Cancelled)
        }

        fn input_bytes(&self, n_rows: u64) -> u64 {
            2 * n_rows * self.1
        }
    }

    fn task(n_rows: u64, row_elems: u64, dtype: DType) -> TensorTask<'static> {
        let mut task = TensorTask::new("t".into(), Box::new(Sized(n_rows, row_elems)));
        task.targets.push(Target { output: 0, dtype, endian: Endian::Little, offset: 0, weights: None });
        task
    }

    #[test]
    fn shares_are_disjoint_and_balanced() {
        let tasks = [
            task(4096, 1024, DType::Q4_K),
            task(1, 1024, DType::F32),
            task(10_000, 2048, DType::Q8_0),
            task(4096, 1024, DType::Q6_K),
        ];
        let rates = [("q4_K", 9000), ("q8_0", 300), ("q6_K", 5000), ("f32", 300)];
        let rates = Rates::new(rates.map(|(name, rate)| (name.to_owned(), rate)).into());
        assert!(rates.0.keys().all(|known| tasks.iter().any(|task| name(&task.targets[0]) == *known)));
        let schedule = Schedule::new(&tasks, JOB_ELEMS);
        let jobs: Vec<Job> = schedule.jobs().collect();
        let total: u128 = jobs.iter().map(|job| rates.cost(&tasks[job.task], job)).sum();
        let largest = jobs.iter().map(|job| rates.cost(&tasks[job.task], job)).max().unwrap();
        for count in [1, 2, 3, 7, 64, 1000] {
            let mut n_jobs = vec![0; jobs.len()];
            for number in 1..=count {
                let part = PartNumber::new(number, count).unwrap();
                let share = Share::new(&tasks, &schedule, &rates, part);
                let mut cost = 0;
                for (index, job) in jobs.iter().enumerate().filter(|(_, job)| share.has(job)) {
                    n_jobs[index] += 1;
                    cost += rates.cost(&tasks[job.task], job);
                }
                assert!(
                    cost.abs_diff(total / u128::from(count)) <= largest,
                    "{number}/{count}: {cost} of {total}"
                );
            }
            assert!(n_jobs.iter().all(|n| *n == 1), "{count}");
        }
    }

    #[test]
    fn empty_work_has_empty_parts() {
        let part = PartNumber::new(1, 2).unwrap();
        let share = Share::new(&[], &Schedule::new(&[], 4), &Rates::default(), part);
        assert!(!share.has(&Job { task: 0, rows: 0..1 }));
    }

    #[test]
    fn cost_grows_with_work() {
        let tasks = [task(1, 1024, DType::Q8_0), task(1, 1024, DType::IQ2_XS)];
        let rates = Rates::measure(&tasks, Level::detect());
        assert_eq!(rates.by_type().len(), 2);
    }
}
