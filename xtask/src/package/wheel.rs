//! The Python wheel: the program as a script of the environment, for `pip`, `pipx` and `uvx`.

use std::path::{Path, PathBuf};

use super::{stage::Stage, tool};
use crate::Failure;

pub(crate) fn make(stage: &Stage, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let version = stage.version();
    let glibc = stage.glibc();
    let tag = format!("py3-none-manylinux_{}_{}_x86_64", glibc.major, glibc.minor);
    let metadata = stage.workshop("wheel")?.join("METADATA");
    tool::write(&metadata, metadata_text(stage)?.as_bytes())?;
    let wheel = out.join(format!("fastness-{version}-{tag}.whl"));
    let mut write = tool::command("python3", [tool::source("deploy/wheel.py")]);
    write
        .arg(stage.program())
        .arg(&metadata)
        .arg(tool::source("LICENSE"));
    write.args([version, &tag, &stage.epoch().to_string()]);
    write.arg(stage.gzip_level().to_string()).arg(&wheel);
    tool::output(write)?;
    Ok(vec![wheel])
}

fn metadata_text(stage: &Stage) -> Result<String, Failure> {
    Ok(format!(
        "Metadata-Version: 2.4
Name: fastness
Version: {}
Summary: {}
Keywords: agent,acp,agent-client-protocol,ai,llm,server
License-Expression: Apache-2.0
License-File: LICENSE
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{}",
        stage.version(),
        stage.description(),
        tool::source_text("deploy/npm/README.md")?
    ))
}
