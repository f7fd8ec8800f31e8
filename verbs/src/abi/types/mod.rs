//! The structures of `infiniband/verbs.h`, `infiniband/sa.h` and `rdma/ib_user_verbs.h` that pass between
//! programs and this library, laid out as C has them. Names of fields are those of the headers.

mod attributes;
mod context;
mod device;
mod kernel;
mod objects;
mod work;

pub use attributes::{
    AhAttr, CqInitAttr, DeviceAttr, DeviceAttrEx, GlobalRoute, ModifyCqAttr, PortAttr, QpAttr,
    QpCap, QpInitAttr, QpInitAttrEx, SrqAttr, SrqInitAttr, SrqInitAttrEx,
};
pub use context::{Context, ContextOps, VerbsContext};
pub use device::{AsyncEvent, Device, Ece, Gid, GidEntry, Grh};
pub(in crate::abi) use device::{NAME_LEN, PATH_LEN};
pub use kernel::{KernelAhAttr, KernelPathRecord, KernelQpAttr, PathRecord};
pub use objects::{Ah, CompChannel, Cq, CqEx, Mr, Pd, Qp, QpEx, QpExOps, Srq};
pub use work::{DataBuf, RecvWr, SendWr, Sge, Wc};
