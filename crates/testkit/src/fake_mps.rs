//! A stand-in for MPS's control daemon: ready once its socket is there, has a server, ends when told.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Gpulane;

const DAEMON: &str = r#"#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
    sleep 5903 & server=$!
    : > control
    while [ ! -e told ]; do sleep 0.01; done
    kill $server
else
    read word; [ "$word" = quit ] && : > told
fi
"#;

impl Gpulane {
    /// The same with a stand-in for MPS, in its workspace's `bin`.
    #[must_use]
    pub fn with_mps(self) -> Self {
        let permit = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        permit(&self.workspace.file("bin/nvidia-cuda-mps-control", DAEMON), 0o755);
        let bin = self.workspace.path().join("bin").display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").expect("there is a PATH"));
        let runtime = self.workspace.path().join("runtime");
        std::fs::create_dir(&runtime).expect("it can be made");
        permit(&runtime, 0o700);
        let runtime = runtime.display().to_string();
        self.with([("PATH".to_owned(), path), ("XDG_RUNTIME_DIR".to_owned(), runtime)])
    }
}
