//! A planned and checked conversion: save its plan, convert a part, assemble.

use std::path::{Path, PathBuf};

use gguf_container::PartNumber;
use gguf_conversion::{
    CheckedConversion, Fingerprint, Input, PlannedFile, Watch,
    parts::{Part, Place, Written, part_path},
};

use super::{
    plan_file::{self, Contents},
    run_args::{NewPlan, OpenPlan, RunArgs},
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    output_files::{make_folder_of, say_written, tell},
    outputs::check_outputs,
};
use gguf_types::words;

/// A conversion that is planned and checked, with the paths of the call.
pub struct Checked<'a, I> {
    /// The conversion.
    pub conversion: &'a CheckedConversion<'a, I>,
    /// Its files.
    pub files: &'a [(PathBuf, &'a PlannedFile)],
    /// The input's path.
    pub input: &'a Path,
    /// Arguments of the run.
    pub args: &'a RunArgs<'a>,
}

impl<I: Input> Checked<'_, I> {
    /// Paths of the files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|(path, _)| path.clone()).collect()
    }

    /// State that the bytes depend on.
    fn fingerprint(&self) -> Result<Fingerprint, Error> {
        let call = &self.args.call;
        Ok(self.conversion.fingerprint(&self.paths(), &call.origin(&|| call.program())?))
    }

    /// Writes a plan.
    ///
    /// # Errors
    /// A path that cannot be written.
    pub fn save(&self, plan: NewPlan<'_>, inputs: &[&Path], events: &dyn Events) -> Result<(), Error> {
        check_outputs(&[plan.path], inputs, self.args.force)?;
        let contents = Contents {
            program: &self.args.call.program,
            folder: plan.folder,
            conversion: plan.conversion,
            fingerprint: &self.fingerprint()?,
            rates: &self.conversion.rates(self.args.options.level),
            files: self.files,
        };
        plan_file::save(plan.path, contents, events)
    }

    /// Fails unless inputs, program and layout are those of the plan. Returns the plan's fingerprint.
    fn same(&self, OpenPlan { file: plan, path }: OpenPlan<'_>) -> Result<Fingerprint, Error> {
        let planned = plan.fingerprint(path)?;
        let differences = self.fingerprint()?.differences(&planned);
        // A difference of the layout is more specific.
        if let [first, ..] = &differences[..] {
            plan.check_layout(path, self.files).map_err(|layout| match differences.len() {
                1 => layout,
                _ => Error::at(path, format_args!("inputs changed since the plan was made: {first}")),
            })?;
            let message = format!("inputs changed since the plan was made: {}", differences.join("; "));
            return Err(Error::at(path, message).hint(["make a new plan and convert all parts again"]));
        }
        plan.check_layout(path, self.files)?;
        Ok(planned)
    }

    /// Converts a part of a plan.
    ///
    /// # Errors
    /// A plan that does not match the inputs, an output that cannot be written, an interruption.
    pub fn part(
        &self,
        plan: OpenPlan<'_>,
        number: PartNumber,
        place: Place,
        events: &dyn Events,
    ) -> Result<(), Error> {
        let failed = |error| failure(self.input, error);
        let (fingerprint, rates) = (self.same(plan)?, plan.file.rates());
        self.files.iter().try_for_each(|(path, _)| make_folder_of(path)).map_err(failed)?;
        let part = Part {
            number,
            place,
            rates: &rates,
            fingerprint: &fingerprint,
            on_resume: &|resumed| tell(resumed, events),
        };
        let cancel = events.cancel();
        let progress = events.progress(self.conversion.part_bytes(&rates, number));
        let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), ..Watch::default() };
        let written =
            self.conversion.write_part(&self.paths(), &part, self.args.force, &self.args.options, watch);
        drop(progress);
        let written = written.map_err(|error| match error {
            // Another run would meet the same difference.
            gguf_conversion::Error::OtherPlan { .. } | gguf_conversion::Error::PartsDiffer { .. } => {
                failed(error)
            }
            _ => failed(error)
                .hint([words!("run the command again to resume the part, or use [-force] to start over")]),
        })?;
        let of = self.files.first().map_or_else(String::new, |(path, _)| path.display().to_string());
        events.status(&match (written, place, self.files.first()) {
            (Written::Before, ..) => format!("part {number} of {of} is already complete"),
            (Written::Now, Place::OwnFile, Some((path, _))) => {
                format!("wrote {}", part_path(path, number).display())
            }
            (Written::Now, ..) => format!("wrote part {number} of {of}"),
        });
        Ok(())
    }

    /// Assembles the parts of a plan.
    ///
    /// # Errors
    /// A missing or damaged part, or a part of another plan.
    pub fn assemble(&self, plan: OpenPlan<'_>, events: &dyn Events) -> Result<(), Error> {
        let fingerprint = self.same(plan)?;
        let cancel = events.cancel();
        let progress = events.progress(self.conversion.input_bytes());
        let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), ..Watch::default() };
        let (force, options) = (self.args.force, &self.args.options);
        let written = self.conversion.assemble(&self.paths(), &fingerprint, force, options, watch);
        drop(progress);
        written.map_err(|error| failure(self.input, error))?;
        say_written(self.files, events);
        Ok(())
    }
}
