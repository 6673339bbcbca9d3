//! The tags `filter`, `with` and `call`, rewritten for the template engine.

use super::expression::{LAZY_FILTERS, Parser};

impl Parser {
    /// Filters of a block, for example `upper|replace("a", "b")`. The engine applies them to the text of the block.
    pub(super) fn block_filters(&mut self) -> Result<String, String> {
        let mut filters = Vec::new();
        loop {
            let name = self.any_name()?;
            if LAZY_FILTERS.contains(&&name[..]) {
                return Err(format!("filter `{name}` is not supported in a `filter` block"));
            }
            filters.push(name + &self.optional_arguments()?);
            if !self.sign("|") {
                return Ok(filters.join("|"));
            }
        }
    }

    /// Assignments of `with`. All see only the variables outside the block.
    pub(super) fn assignments(&mut self) -> Result<String, String> {
        let (mut values, mut targets) = (Vec::new(), Vec::new());
        while !self.is_done() {
            let target = self.target()?;
            self.expect("=")?;
            values.push(format!("__with{}={}", values.len(), self.expression()?));
            targets.push(format!("{target}=__with{}", targets.len()));
            if !self.is_done() {
                self.expect(",")?;
            }
        }
        values.extend(targets);
        Ok(values.join(","))
    }

    /// The call of a `call` block, preceded by the parameters of the block.
    pub(super) fn block_call(&mut self) -> Result<String, String> {
        let mut parameters = String::new();
        if self.sign("(") {
            let mut names = Vec::new();
            while !self.sign(")") {
                let name = self.any_name()?;
                let default = if self.sign("=") { format!("={}", self.expression()?) } else { String::new() };
                names.push(name + &default);
                if !self.is_sign(")") {
                    self.expect(",")?;
                }
            }
            parameters = format!("({})", names.join(","));
        }
        let name = self.any_name()?;
        if !self.is_sign("(") {
            return Err(format!("invalid `call` block: expected a macro call, found `{name}`"));
        }
        Ok(format!("{parameters} {name}({})", self.arguments()?))
    }
}
