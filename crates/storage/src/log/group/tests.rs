use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let lens = proptest::collection::vec(prop_oneof![4 => 1u32..300, 1 => 1u32..90_000], 1..5);
    let data = (any::<u64>(), 0..1u64 << 40, any::<u32>(), lens).prop_map(
        |(stream, offset, record, lens)| {
            let total: u32 = lens.iter().sum();
            let payload: Vec<u8> = (0..total).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
            Data {
                stream: StreamId(stream),
                offset: Offset(offset),
                record: Record(u64::from(record)),
                lens: lens.into_iter().collect(),
                payload: payload.into(),
            }
        },
    );
    let meta = proptest::collection::vec(any::<u8>(), 0..200);
    let entry = (any::<u8>(), meta, proptest::option::of(data))
        .prop_map(|(shard, meta, data)| Entry { shard: ShardNo(shard), meta: meta.into(), data });
    proptest::collection::vec(entry, 1..4)
}

/// An entry, and the number of its group.
type Decoded = (u32, ShardNo, Vec<u8>, Option<(DataHead, Placed)>);

fn decode_all(bytes: &[u8], groups: u32) -> Result<Vec<Decoded>, String> {
    let mut found = Vec::new();
    decode(bytes, 0..bytes.len(), groups, &mut |group, entry| {
        found.push((group, entry.shard, entry.meta.to_vec(), entry.data));
        Ok(())
    })?;
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn groups_come_back_as_they_were_written(groups in proptest::collection::vec(entries(), 1..4)) {
        let (mut bytes, mut placed, mut size) = (Vec::new(), Vec::new(), 0);
        for group in &groups {
            check(group);
            size += measure(group).body;
            encode(group, &mut bytes, &mut placed);
        }
        prop_assert_eq!(bytes.len() as u64, size, "the measure is exact");
        let found = decode_all(&bytes, u32::try_from(groups.len()).unwrap()).unwrap();
        let numbered = (0u32..).zip(&groups);
        let written = numbered.flat_map(|(no, group)| group.iter().map(move |e| (no, e)));
        let mut placed = placed.into_iter();
        prop_assert_eq!(found.len(), groups.iter().map(Vec::len).sum::<usize>());
        for ((group, shard, meta, data), (number, entry)) in found.iter().zip(written) {
            prop_assert_eq!((*group, *shard, &meta[..]), (number, entry.shard, &entry.meta[..]));
            let Some((head, place)) = data else {
                prop_assert!(entry.data.is_none());
                continue;
            };
            let data = entry.data.as_ref().unwrap();
            prop_assert_eq!(Some(*place), placed.next());
            prop_assert_eq!((head.stream, head.offset), (data.stream, data.offset));
            prop_assert_eq!((head.record, &head.lens), (data.record, &data.lens));
            let end = (place.position + place.len) as usize;
            prop_assert_eq!(&bytes[end - data.payload.len()..end], &data.payload[..]);
        }
    }

    #[test]
    fn any_bytes_may_be_decoded(bytes: Vec<u8>, groups in 0u32..5) {
        drop(decode_all(&bytes, groups));
    }

    #[test]
    fn a_group_that_is_cut_or_changed_never_panics(
        group in entries(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = Vec::new();
        encode(&group, &mut bytes, &mut Vec::new());
        let at = at.index(bytes.len());
        drop(decode_all(&bytes[..at], 1));
        bytes[at] = byte;
        drop(decode_all(&bytes, 1));
    }
}

#[test]
fn a_head_is_believed_only_if_its_checksum_is_right() {
    let data = Data {
        stream: StreamId(7),
        offset: Offset(1_000),
        record: Record(10),
        lens: [3, 4].into_iter().collect(),
        payload: Bytes::from_static(b"onetwoo"),
    };
    let mut bytes = Vec::new();
    let placed = encode_data(&data, &mut bytes);
    let head = Head::parse(&bytes).unwrap();
    assert_eq!(head.len + data.payload.len(), placed.len as usize);
    assert_eq!(head.lens(), Some(data.lens));
    for bit in 0..head.len * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Head::parse(&bad), None, "bit {bit}");
    }
}
