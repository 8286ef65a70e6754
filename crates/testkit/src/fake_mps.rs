//! A stand-in for MPS's control daemon.

use std::os::unix::fs::DirBuilderExt;

use crate::Gpulane;

/// Ready once its socket is there, has a server, ends when told. Says in its log for which devices it is.
pub const MPS_DAEMON: &str = r#"cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
    echo "$CUDA_VISIBLE_DEVICES" > "$CUDA_MPS_LOG_DIRECTORY/devices"
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
        self.workspace.program("bin/nvidia-cuda-mps-control", MPS_DAEMON);
        let bin = self.workspace.path().join("bin").display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").expect("there is a PATH"));
        let runtime = self.workspace.path().join("runtime");
        std::fs::DirBuilder::new().mode(0o700).create(&runtime).expect("it can be made");
        let runtime = runtime.display().to_string();
        self.with([("PATH".to_owned(), path), ("XDG_RUNTIME_DIR".to_owned(), runtime)])
    }
}
