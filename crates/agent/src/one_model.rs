//! A catalogue with one entry, for processes that have nothing to choose from.

use std::sync::Arc;

use llm::{Catalog, ChooseError, ModelOption, Provider};

/// The models of a process that has only this one.
pub struct OneModel(pub Arc<dyn Provider>);

impl Catalog for OneModel {
    fn options(&self) -> Vec<ModelOption> {
        let spec = self.0.label().to_owned();
        let name = spec.clone();
        vec![ModelOption { spec, name }]
    }

    fn provider(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        if spec == self.0.label() {
            Ok(Arc::clone(&self.0))
        } else {
            Err(ChooseError::NotOffered)
        }
    }
}
