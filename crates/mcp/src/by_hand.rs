//! A tool called by the person at this machine, outside any session.
//!
//! Nobody is asked for permission, for the person is the one who calls; nothing is noted.

use serde_json::{Map, Value};
use tools::Outcome;
use tools::output::Output;

use crate::error::CallError;
use crate::hub::Hub;
use crate::outcome;

impl Hub {
    /// Calls the tool that sessions know as `name`; what is too long of its result goes to `output`.
    ///
    /// # Errors
    /// If there is no result.
    pub async fn try_tool(
        &self,
        name: &str,
        input: Map<String, Value>,
        output: Output,
    ) -> Result<Outcome, CallError> {
        let found = self.find(name);
        let (kept, tool) =
            found.ok_or_else(|| CallError::NotThere("it has no such tool".to_owned()))?;
        let link = kept.link().await?;
        let silence_max = kept.server.silence_max;
        let result = link.call(&tool.name, input, silence_max, |_| {}).await?;
        // Checking a form and writing a file take a thread for a while.
        let read = tokio::task::spawn_blocking(move || {
            outcome::of_result(result, tool.output_schema.as_deref(), output)
        });
        let read = read.await;
        Ok(read.unwrap_or_else(|_| Outcome::unknown("The result could not be read.")))
    }
}
