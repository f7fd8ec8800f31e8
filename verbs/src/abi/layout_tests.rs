//! The layouts of the distribution's headers are those of [`super::types`].

use std::path::Path;
use std::process::Command;

use super::types::*;

/// For each structure its name in C, its size in Rust, and of each field the path in C and the offset in Rust.
type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

/// Fields that are called as in C are given once, others as `field = "path in C"`.
macro_rules! layout {
    ($name:literal, $type:ty, $($field:tt $(. $inner:tt)* $(= $path:literal)?),* $(,)?) => {
        (
            $name,
            size_of::<$type>(),
            vec![$((
                layout!(@path $field $(= $path)?),
                core::mem::offset_of!($type, $field $(. $inner)*),
            )),*],
        )
    };
    (@path $field:tt = $path:literal) => { $path };
    (@path $field:tt) => { stringify!($field) };
}

fn work() -> Vec<Layout> {
    vec![
        layout!("struct ibv_sge", Sge, addr, length, lkey),
        layout!("struct ibv_data_buf", DataBuf, addr, length),
        layout!("struct ibv_recv_wr", RecvWr, wr_id, next, sg_list, num_sge),
        layout!(
            "struct ibv_send_wr",
            SendWr,
            wr_id,
            next,
            sg_list,
            num_sge,
            opcode,
            send_flags,
            imm_data,
            remote_addr = "wr.rdma.remote_addr",
            remote_addr = "wr.atomic.remote_addr",
            remote_addr = "wr.ud.ah",
            compare_add = "wr.atomic.compare_add",
            compare_add = "wr.rdma.rkey",
            compare_add = "wr.ud.remote_qpn",
            swap = "wr.atomic.swap",
            rkey = "wr.atomic.rkey",
            remote_srqn = "qp_type.xrc.remote_srqn",
            rest = "bind_mw",
        ),
        layout!(
            "struct ibv_wc",
            Wc,
            wr_id,
            status,
            opcode,
            vendor_err,
            byte_len,
            imm_data,
            qp_num,
            src_qp,
            wc_flags,
            pkey_index,
            slid,
            sl,
            dlid_path_bits,
        ),
    ]
}

fn devices() -> Vec<Layout> {
    vec![
        layout!(
            "struct ibv_device",
            Device,
            node_type,
            transport_type,
            name,
            dev_name,
            dev_path,
            ibdev_path,
        ),
        layout!("union ibv_gid", Gid, raw),
        layout!(
            "struct ibv_gid_entry",
            GidEntry,
            gid,
            gid_index,
            port_num,
            gid_type,
            ndev_ifindex
        ),
        layout!(
            "struct ibv_grh",
            Grh,
            version_tclass_flow,
            paylen,
            next_hdr,
            hop_limit,
            sgid,
            dgid,
        ),
        layout!("struct ibv_async_event", AsyncEvent, element, event_type),
        layout!("struct ibv_ece", Ece, vendor_id, options, comp_mask),
        layout!(
            "struct ibv_device_attr",
            DeviceAttr,
            fw_ver,
            node_guid,
            sys_image_guid,
            max_mr_size,
            page_size_cap,
            vendor_id,
            vendor_part_id,
            hw_ver,
            max_qp,
            max_qp_wr,
            device_cap_flags,
            max_sge,
            max_sge_rd,
            max_cq,
            max_cqe,
            max_mr,
            max_pd,
            max_qp_rd_atom,
            max_ee_rd_atom,
            max_res_rd_atom,
            max_qp_init_rd_atom,
            max_ee_init_rd_atom,
            atomic_cap,
            max_ee,
            max_rdd,
            max_mw,
            max_raw_ipv6_qp,
            max_raw_ethy_qp,
            max_mcast_grp,
            max_mcast_qp_attach,
            max_total_mcast_qp_attach,
            max_ah,
            max_fmr,
            max_map_per_fmr,
            max_srq,
            max_srq_wr,
            max_srq_sge,
            max_pkeys,
            local_ca_ack_delay,
            phys_port_cnt,
        ),
        layout!(
            "struct ibv_device_attr_ex",
            DeviceAttrEx,
            orig_attr,
            comp_mask,
            odp_caps,
            completion_timestamp_mask,
            hca_core_clock,
            device_cap_flags_ex,
            tso_caps,
            rss_caps,
            max_wq_type_rq,
            packet_pacing_caps,
            raw_packet_caps,
            tm_caps,
            cq_mod_caps,
            max_dm_size,
            pci_atomic_caps,
            xrc_odp_caps,
            phys_port_cnt_ex,
        ),
        layout!(
            "struct ibv_port_attr",
            PortAttr,
            state,
            max_mtu,
            active_mtu,
            gid_tbl_len,
            port_cap_flags,
            max_msg_sz,
            bad_pkey_cntr,
            qkey_viol_cntr,
            pkey_tbl_len,
            lid,
            sm_lid,
            lmc,
            max_vl_num,
            sm_sl,
            subnet_timeout,
            init_type_reply,
            active_width,
            active_speed,
            phys_state,
            link_layer,
            flags,
            port_cap_flags2,
        ),
    ]
}

fn attributes() -> Vec<Layout> {
    vec![
        layout!(
            "struct ibv_global_route",
            GlobalRoute,
            dgid,
            flow_label,
            sgid_index,
            hop_limit,
            traffic_class,
        ),
        layout!(
            "struct ibv_ah_attr",
            AhAttr,
            grh,
            dlid,
            sl,
            src_path_bits,
            static_rate,
            is_global,
            port_num,
        ),
        layout!("struct ibv_srq_attr", SrqAttr, max_wr, max_sge, srq_limit),
        layout!("struct ibv_srq_init_attr", SrqInitAttr, srq_context, attr),
        layout!(
            "struct ibv_srq_init_attr_ex",
            SrqInitAttrEx,
            srq_context,
            attr,
            comp_mask,
            srq_type,
            pd,
            xrcd,
            cq,
            tm_cap,
        ),
        layout!(
            "struct ibv_cq_init_attr_ex",
            CqInitAttr,
            cqe,
            cq_context,
            channel,
            comp_vector,
            wc_flags,
            comp_mask,
            flags,
            parent_domain,
        ),
        layout!(
            "struct ibv_modify_cq_attr",
            ModifyCqAttr,
            attr_mask,
            moderate
        ),
        layout!(
            "struct ibv_qp_cap",
            QpCap,
            max_send_wr,
            max_recv_wr,
            max_send_sge,
            max_recv_sge,
            max_inline_data,
        ),
        layout!(
            "struct ibv_qp_init_attr",
            QpInitAttr,
            qp_context,
            send_cq,
            recv_cq,
            srq,
            cap,
            qp_type,
            sq_sig_all,
        ),
        layout!(
            "struct ibv_qp_init_attr_ex",
            QpInitAttrEx,
            qp_context,
            send_cq,
            recv_cq,
            srq,
            cap,
            qp_type,
            sq_sig_all,
            comp_mask,
            pd,
            xrcd,
            create_flags,
            max_tso_header,
            rwq_ind_tbl,
            rx_hash_conf,
            source_qpn,
            send_ops_flags,
        ),
        layout!(
            "struct ibv_qp_attr",
            QpAttr,
            qp_state,
            cur_qp_state,
            path_mtu,
            path_mig_state,
            qkey,
            rq_psn,
            sq_psn,
            dest_qp_num,
            qp_access_flags,
            cap,
            ah_attr,
            alt_ah_attr,
            pkey_index,
            alt_pkey_index,
            en_sqd_async_notify,
            sq_draining,
            max_rd_atomic,
            max_dest_rd_atomic,
            min_rnr_timer,
            port_num,
            timeout,
            retry_cnt,
            rnr_retry,
            alt_port_num,
            alt_timeout,
            rate_limit,
        ),
    ]
}

fn objects() -> Vec<Layout> {
    vec![
        layout!("struct ibv_pd", Pd, context, handle),
        layout!(
            "struct ibv_mr",
            Mr,
            context,
            pd,
            addr,
            length,
            handle,
            lkey,
            rkey
        ),
        layout!("struct ibv_ah", Ah, context, pd, handle),
        layout!("struct ibv_comp_channel", CompChannel, context, fd, refcnt),
        layout!(
            "struct ibv_cq",
            Cq,
            context,
            channel,
            cq_context,
            handle,
            cqe,
            mutex,
            cond,
            comp_events_completed,
            async_events_completed,
        ),
        layout!(
            "struct ibv_cq_ex",
            CqEx,
            comp_mask,
            status,
            wr_id,
            start_poll,
            next_poll,
            end_poll,
            read_opcode,
            read_vendor_err,
            read_byte_len,
            read_imm_data,
            read_qp_num,
            read_src_qp,
            read_wc_flags,
            read_slid,
            read_sl,
            read_dlid_path_bits,
            read_completion_ts,
            read_cvlan,
            read_flow_tag,
            read_tm_info,
            read_completion_wallclock_ns,
        ),
        layout!(
            "struct ibv_srq",
            Srq,
            context,
            srq_context,
            pd,
            handle,
            mutex,
            cond,
            events_completed,
        ),
        layout!(
            "struct ibv_qp",
            Qp,
            context,
            qp_context,
            pd,
            send_cq,
            recv_cq,
            srq,
            handle,
            qp_num,
            state,
            qp_type,
            mutex,
            cond,
            events_completed,
        ),
        layout!(
            "struct ibv_context",
            Context,
            device,
            ops,
            cmd_fd,
            async_fd,
            num_comp_vectors,
            mutex,
            abi_compat,
        ),
        layout!(
            "struct ibv_context_ops",
            ContextOps,
            _compat_query_device,
            _compat_query_port,
            alloc_mw,
            bind_mw,
            dealloc_mw,
            poll_cq,
            req_notify_cq,
            post_srq_recv,
            post_send,
            post_recv,
        ),
        layout!(
            "struct verbs_context",
            VerbsContext,
            query_port,
            advise_mr,
            alloc_parent_domain,
            dealloc_td,
            alloc_td,
            modify_cq,
            post_srq_ops,
            destroy_rwq_ind_table,
            query_rt_values,
            create_cq_ex,
            private = "priv",
            query_device_ex,
            ibv_destroy_flow,
            open_qp,
            create_qp_ex,
            get_srq_num,
            create_srq_ex,
            open_xrcd,
            close_xrcd,
            sz,
            context,
        ),
    ]
}

fn kernel() -> Vec<Layout> {
    vec![
        layout!(
            "struct ib_uverbs_ah_attr",
            KernelAhAttr,
            dgid = "grh.dgid",
            flow_label = "grh.flow_label",
            sgid_index = "grh.sgid_index",
            hop_limit = "grh.hop_limit",
            traffic_class = "grh.traffic_class",
            dlid,
            sl,
            src_path_bits,
            static_rate,
            is_global,
            port_num,
        ),
        layout!(
            "struct ib_uverbs_qp_attr",
            KernelQpAttr,
            qp_attr_mask,
            qp_state,
            cur_qp_state,
            path_mtu,
            path_mig_state,
            qkey,
            rq_psn,
            sq_psn,
            dest_qp_num,
            qp_access_flags,
            ah_attr,
            alt_ah_attr,
            max_send_wr,
            max_recv_wr,
            max_send_sge,
            max_recv_sge,
            max_inline_data,
            pkey_index,
            alt_pkey_index,
            en_sqd_async_notify,
            sq_draining,
            max_rd_atomic,
            max_dest_rd_atomic,
            min_rnr_timer,
            port_num,
            timeout,
            retry_cnt,
            rnr_retry,
            alt_port_num,
            alt_timeout,
        ),
        layout!(
            "struct ib_user_path_rec",
            KernelPathRecord,
            dgid,
            sgid,
            dlid,
            slid,
            raw_traffic,
            flow_label,
            reversible,
            mtu,
            pkey,
            hop_limit,
            traffic_class,
            numb_path,
            sl,
            mtu_selector,
            rate_selector,
            rate,
            packet_life_time_selector,
            packet_life_time,
            preference,
        ),
        layout!(
            "struct ibv_sa_path_rec",
            PathRecord,
            dgid,
            sgid,
            dlid,
            slid,
            raw_traffic,
            flow_label,
            hop_limit,
            traffic_class,
            reversible,
            numb_path,
            pkey,
            sl,
            mtu_selector,
            mtu,
            rate_selector,
            rate,
            packet_life_time_selector,
            packet_life_time,
            preference,
        ),
    ]
}

/// A program that prints the same numbers as C has them.
fn source(layouts: &[Layout]) -> String {
    let mut lines = String::new();
    for (name, _, fields) in layouts {
        lines += &format!("    printf(\"{name} %zu\\n\", sizeof({name}));\n");
        for (field, _) in fields {
            lines +=
                &format!("    printf(\"{name} {field} %zu\\n\", offsetof({name}, {field}));\n");
        }
    }
    format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n\
         #include <rdma/ib_user_sa.h>\n#include <rdma/ib_user_verbs.h>\n\
         int main(void)\n{{\n{lines}    return 0;\n}}\n"
    )
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("a C compiler and its program");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{stderr}\n(if infiniband/verbs.h is missing: install libibverbs-dev)"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn printed_by_c(folder: &Path, layouts: &[Layout]) -> String {
    let (from, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&from, source(layouts)).expect("a file can be written");
    let _ = run(Command::new("cc").arg("-o").args([&program, &from]));
    run(&mut Command::new(program))
}

#[test]
fn structures_are_laid_out_as_the_distributions_headers_say() {
    let layouts: Vec<Layout> = [work(), devices(), attributes(), objects(), kernel()].concat();
    let mut ours = String::new();
    for (name, size, fields) in &layouts {
        ours += &format!("{name} {size}\n");
        for (field, offset) in fields {
            ours += &format!("{name} {field} {offset}\n");
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let theirs = printed_by_c(folder.path(), &layouts);
    let pairs = ours.lines().zip(theirs.lines());
    let differing: Vec<_> = pairs.filter(|(ours, theirs)| ours != theirs).collect();
    assert_eq!(differing, [], "(ours, theirs)");
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn functions_for_queue_pairs_with_builders_are_where_the_header_has_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names = [
        "wr_atomic_cmp_swp",
        "wr_atomic_fetch_add",
        "wr_bind_mw",
        "wr_local_inv",
        "wr_rdma_read",
        "wr_rdma_write",
        "wr_rdma_write_imm",
        "wr_send",
        "wr_send_imm",
        "wr_send_inv",
        "wr_send_tso",
        "wr_set_ud_addr",
        "wr_set_xrc_srqn",
        "wr_set_inline_data",
        "wr_set_inline_data_list",
        "wr_set_sge",
        "wr_set_sge_list",
        "wr_start",
        "wr_complete",
        "wr_abort",
        "wr_atomic_write",
    ];
    let first = core::mem::offset_of!(QpEx, ops);
    let fields = names.iter().enumerate();
    let fields: Vec<_> = fields
        .map(|(at, &name)| (name, first + at * size_of::<usize>()))
        .collect();
    let layouts = [(
        "struct ibv_qp_ex",
        first + fields.len() * size_of::<usize>(),
        fields,
    )];
    let theirs = printed_by_c(folder.path(), &layouts);
    // Our structure is longer by one function, of newer releases.
    let theirs: Vec<&str> = theirs.lines().collect();
    let mut ours = vec![format!("struct ibv_qp_ex {}", layouts[0].1)];
    ours.extend(
        layouts[0]
            .2
            .iter()
            .map(|(name, at)| format!("struct ibv_qp_ex {name} {at}")),
    );
    assert_eq!(ours, theirs);
    assert_eq!(size_of::<QpEx>(), layouts[0].1 + size_of::<usize>());
}
