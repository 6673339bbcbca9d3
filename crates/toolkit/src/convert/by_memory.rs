//! Choice of the file type by memory, for a conversion without a type.

use gguf_conversion::{CheckpointInput, Conversion, recipes::Recipe};

use super::{
    checkpoint::Convert,
    run_args::{Caller, Parts},
};
use crate::{call::option_name, error::Error, events::Events, failure::failure, memory, settings::Settings};

impl Convert {
    /// True if nothing else needs a requested type: a plan must give the same file on every machine, and other options refer to the
    /// type.
    pub(super) fn can_choose_type(&self, parts: &Parts<'_>) -> bool {
        parts.is_whole() && self.fp8_as.is_none() && self.budget.limit.is_none()
    }

    /// The recipe that suits the memory, and the caller, whose identity names the type as if it had been requested.
    ///
    /// # Errors
    /// A plan that cannot be made, or a model that is too large.
    pub(super) fn suited_type<'a>(
        &self,
        input: &CheckpointInput,
        settings: &Settings,
        caller: Caller<'a>,
        events: &dyn Events,
    ) -> Result<(Vec<&'static Recipe>, Caller<'a>), Error> {
        let failed = |error| failure(&self.source, error);
        let n_bytes = |recipe| {
            let outputs = settings.outputs(vec![recipe], input)?;
            let conversion = Conversion::new(input).outputs(outputs).request(settings.request());
            memory::n_bytes(&conversion).map_err(failed)
        };
        let suited = memory::suited_here(self.memory, n_bytes)?;
        events.note(suited.words());
        let call = caller.call.argument(&option_name("types").to_string(), suited.file_type.to_string());
        Ok((suited.file_type.recipe().into_iter().collect(), Caller { call, ..caller }))
    }
}
