//! A tool called by the person at this machine, outside any session.
//!
//! Nobody is asked for permission, for the person is the one who calls; nothing is noted.

use std::sync::Arc;

use domain::CallId;
use serde_json::{Map, Value};
use tools::Outcome;
use tools::asks::Asks;
use tools::output::Output;

use crate::call;
use crate::callers::OnBehalf;
use crate::error::CallError;
use crate::hub::Hub;
use crate::outcome;

impl Hub {
    /// Calls the tool that sessions know as `name`, whose server may ask `asks` meanwhile; what is too
    /// long of its result goes to `output`.
    ///
    /// # Errors
    /// If there is no result.
    pub async fn try_tool(
        &self,
        name: &str,
        input: Map<String, Value>,
        output: Output,
        asks: Arc<dyn Asks>,
    ) -> Result<Outcome, CallError> {
        let found = self.find(name);
        let (kept, tool) =
            found.ok_or_else(|| CallError::NotThere("it has no such tool".to_owned()))?;
        let link = kept.link().await?;
        let silence_max = kept.server.silence_max;
        let call = CallId::new("by-hand");
        let on_behalf = Some(OnBehalf { call, asks });
        let params = call::params(&tool.name, input);
        let result = link.call(params, silence_max, on_behalf, |_| {}).await?;
        // Checking a form and writing a file take a thread for a while.
        let read = tokio::task::spawn_blocking(move || {
            outcome::of_result(result, tool.output_schema.as_deref(), output)
        });
        let read = read.await;
        Ok(read.unwrap_or_else(|_| Outcome::unknown("The result could not be read.")))
    }
}
