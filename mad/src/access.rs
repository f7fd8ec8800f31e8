//! What agents of general services check of every request before they look at its attribute.

use wire::mad::{Mad, MadHeader, MadStatus, Method};

/// The method of a request that an agent executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Get.
    Get,
    /// Set.
    Set,
}

/// Checks method and versions of `mad`, of a class of version `class_version`. A request with another method or
/// version is turned into its answer in place (status of IBA 13.4.7).
///
/// # Errors
/// Whether `mad` is such an answer now; `false`: it is no request, and nothing is to be sent.
pub(crate) fn access(mad: &mut Mad, class_version: u8) -> Result<Access, bool> {
    let header = mad.header();
    let access = match header.method {
        Method::GET => Access::Get,
        Method::SET => Access::Set,
        method if !method.is_request() => return Err(false),
        _ => {
            mad.answer(MadStatus::BAD_METHOD);
            return Err(true);
        }
    };
    if header.base_version != MadHeader::BASE_VERSION || header.class_version != class_version {
        mad.answer(MadStatus::BAD_VERSION);
        return Err(true);
    }
    Ok(access)
}
