//! Which boot of the machine this is. What was written without a sync is there as long as the kernel that was given it runs, and
//! worth nothing after that.

use gpulane_model::env_vars;

/// The kernel's id of this boot, `None` where it has none. `GPULANE_TEST_BOOT_ID` is added to it and can only make two boots
/// out of one, never one out of two: whatever a test leaves in an environment, nothing is trusted that should not be.
pub(super) fn id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = Some(id.trim().to_owned()).filter(|id| !id.is_empty())?;
    Some(match std::env::var(env_vars::TEST_BOOT_ID) {
        Ok(more) => format!("{id}+{more}"),
        Err(_) => id,
    })
}
