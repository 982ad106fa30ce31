"""The hundred items of the producer document: tests prove each of them, or a section of ADR 0044 argues it."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ADR = ROOT / "docs" / "adr" / "0044-what-the-client-does-otherwise.md"

CORE = "tests/unit/client/test_producer_core.py"
ANSWERS = "tests/unit/client/test_producer_answers.py"
SETTINGS = "tests/unit/client/test_producer_settings.py"
NETWORK = "tests/unit/client/test_producer_network.py"
TRANSACTIONS = "tests/unit/client/test_producer_transactions.py"
INTAKE = "tests/unit/client/test_intake.py"
ONCE = "tests/property/client/test_producer_exactly_once.py"
REAL = "tests/conformance/test_own_producer.py"
THREADS = "tests/integration/client/test_blocking.py"
AGAIN = "tests/integration/client/test_topic_made_again.py"
MEASURED = "tests/integration/client/test_measured_and_traced.py"
PAGE = "docs/client.md"

ONE_THREAD = "One thread decides"
NO_POOL = "No pool of buffers"
A_LINE = "Waiting is a place in a line"
RAISED = "Errors that a program caused are raised"
ANOTHER_TOPIC = "A topic that is made again is another topic"

DEFAULTS = (SETTINGS, "defaults_are_kafkas")
REFUSED = (SETTINGS, "what_cannot_be_is_refused_with_a_way_out")
WRITTEN_ONCE = (ONCE, "each_record_is_written_once_and_in_order")

ITEMS = {
    # API
    1: [
        (REAL, "s2_01_and_04_a_send_is_awaited_for_its_place"),
        (THREADS, "s2_01_a_record_is_sent_and_read"),
    ],
    2: [(THREADS, "s2_02_the_order_of_each_thread_is_kept")],
    3: [(THREADS, "s2_03_a_thread_of_the_program_touches_no_socket")],
    4: [
        (REAL, "s2_01_and_04_a_send_is_awaited_for_its_place"),
        (CORE, "s2_40_many_may_wait_for_one_delivery"),
    ],
    5: [
        (REAL, "s2_05_callbacks_come_once_and_in_order"),
        (THREADS, "s2_05_callbacks_come_once_and_in_order_to_threads"),
    ],
    6: [
        (REAL, "s2_06_interceptors_see_each_record_twice"),
        (NETWORK, "s2_06_an_interceptor_is_told_of_what_was_never_sent"),
    ],
    7: [(REAL, "s2_07_serializers_make_the_bytes")],
    8: [(REAL, "s2_08_a_delivery_tells_what_is_wrong_with_its_record"), RAISED],
    9: [(NETWORK, "s2_09_headers_are_copied_and_the_time_is_now")],
    10: [
        (REAL, "s2_10_a_flush_in_a_callback_is_refused"),
        (THREADS, "s2_10_a_callback_may_send_and_close_but_not_wait"),
        A_LINE,
    ],
    # metadata
    11: [
        (CORE, "s2_11_a_topic_that_never_comes_times_out"),
        (REAL, "s2_11_a_topic_that_is_none_is_told_in_time"),
        A_LINE,
    ],
    12: [(CORE, "s2_12_a_record_waits_for_its_topic"), A_LINE],
    13: [(CORE, "s2_13_an_old_leader_makes_it_ask_for_metadata")],
    14: [
        (NETWORK, "s2_14_an_answer_tells_of_a_new_leader_and_where_it_is"),
        (NETWORK, "s2_14_news_of_a_leader_never_goes_back"),
    ],
    15: [(CORE, "s2_15_a_fresh_leader_is_not_waited_for")],
    16: [(CORE, "s2_16_a_record_above_a_limit_is_refused")],
    # partitions
    17: [(CORE, "s2_17_a_given_partition_is_taken_as_it_is")],
    18: [(CORE, "s2_18_a_key_chooses_by_murmur2")],
    19: [(CORE, "s2_19_a_partitioner_of_its_own_is_asked_and_checked")],
    20: [(CORE, "s2_20_keys_are_left_alone_when_told_to")],
    21: [(CORE, "s2_22_a_partition_is_kept_until_a_batch_is_full"), ONE_THREAD],
    22: [(CORE, "s2_22_a_partition_is_kept_until_a_batch_is_full")],
    23: [ONE_THREAD],
    24: [(CORE, "s2_24_the_next_partition_has_a_leader")],
    25: [(CORE, "s2_25_a_slow_broker_gets_fewer_records")],
    26: [(CORE, "s2_25_a_slow_broker_gets_fewer_records")],
    27: [(CORE, "s2_27_a_broker_that_takes_nothing_is_left_out")],
    28: [(CORE, "s2_28_leaders_of_its_own_rack_are_preferred")],
    29: [(CORE, "s2_29_partitions_are_alike_until_each_has_had_a_batch")],
    # accumulator and memory
    30: [WRITTEN_ONCE, (CORE, "s2_44_a_request_takes_a_batch_of_each_partition")],
    31: [(THREADS, "s2_02_the_order_of_each_thread_is_kept"), ONE_THREAD],
    32: [(CORE, "s2_32_a_large_record_has_a_batch_of_its_own")],
    33: [(CORE, "s2_34_a_batch_waits_for_linger_or_to_be_full")],
    34: [
        (CORE, "s2_34_a_batch_waits_for_linger_or_to_be_full"),
        (CORE, "s2_34_a_flush_or_a_close_lets_everything_go"),
        (TRANSACTIONS, "s2_34_a_commit_lets_everything_go"),
    ],
    35: [(REAL, "s2_35_a_full_batch_leaves_long_before_linger")],
    36: [
        (CORE, "s2_36_memory_is_bounded_and_comes_back"),
        (THREADS, "s2_36_and_38_many_threads_share_a_small_buffer"),
    ],
    37: [NO_POOL],
    38: [
        (CORE, "s2_38_who_waits_for_memory_is_served_in_order"),
        (CORE, "s2_38_who_waits_too_long_is_told_so"),
        (INTAKE, "threads_that_wait_are_served_in_their_order"),
        (INTAKE, "a_record_without_room_waits_for_max_block_ms"),
        A_LINE,
    ],
    39: [(CORE, "s2_36_memory_is_bounded_and_comes_back"), WRITTEN_ONCE],
    # batches
    40: [(CORE, "s2_40_many_may_wait_for_one_delivery")],
    41: [(CORE, "s2_41_an_answer_after_the_end_changes_nothing")],
    42: [(CORE, "s2_42_attempts_are_counted")],
    # sender
    43: [WRITTEN_ONCE, (TRANSACTIONS, "tv2_needs_one_call_a_transaction")],
    44: [(CORE, "s2_44_a_request_takes_a_batch_of_each_partition")],
    45: [(CORE, "s2_45_46_partitions_take_turns_in_a_requests_size")],
    46: [(CORE, "s2_45_46_partitions_take_turns_in_a_requests_size")],
    47: [(CORE, "s2_47_sequences_advance_by_records")],
    48: [(ANSWERS, "s2_75_each_codec_compresses_what_is_read_again"), ONE_THREAD],
    49: [(CORE, "s2_49_one_in_flight_mutes_its_partition")],
    50: [(CORE, "s2_50_a_connection_has_so_many_requests_at_a_time")],
    51: [
        (CORE, "s2_51_what_waits_too_long_is_given_up_and_not_written"),
        (ONCE, "what_is_given_up_is_told_truly"),
    ],
    52: [(NETWORK, "s2_52_a_throttled_broker_is_left_alone_for_so_long")],
    # protocol
    53: [(REAL, "s2_53_and_56_each_kind_of_acknowledgement")],
    54: [
        (CORE, "s2_54_a_topic_made_again_ends_what_was_sent_before"),
        (AGAIN, "a_stale_producer_does_not_go_on_in_the_new_topic"),
        ANOTHER_TOPIC,
    ],
    55: [
        (TRANSACTIONS, "tv2_needs_one_call_a_transaction"),
        (TRANSACTIONS, "tv1_adds_a_partition_before_it_writes_there"),
    ],
    56: [(REAL, "s2_53_and_56_each_kind_of_acknowledgement")],
    57: [(NETWORK, "s2_57_a_broker_without_our_versions_is_named"), WRITTEN_ONCE],
    # answers
    58: [
        (ANSWERS, "s2_58_the_leaders_time_is_told"),
        (REAL, "s2_01_and_04_a_send_is_awaited_for_its_place"),
    ],
    59: [
        (ANSWERS, "s2_59_a_batch_that_is_too_large_goes_in_parts"),
        (ANSWERS, "s2_59_parts_may_be_too_large_again"),
        (REAL, "s2_59_a_batch_above_the_topics_limit_is_split"),
    ],
    60: [WRITTEN_ONCE, (CORE, "s2_42_attempts_are_counted")],
    61: [WRITTEN_ONCE],
    62: [(ANSWERS, "s2_62_a_duplicate_is_delivered_without_its_offset")],
    63: [(ANSWERS, "s2_63_a_single_record_that_is_too_large_fails_alone")],
    # idempotence
    64: [DEFAULTS, WRITTEN_ONCE],
    65: [(ANSWERS, "s2_65_an_identity_is_asked_for_with_the_first_record")],
    66: [WRITTEN_ONCE],
    67: [(ANSWERS, "s2_67_nothing_new_goes_behind_what_was_given_up")],
    68: [(ANSWERS, "s2_68_lost_state_makes_a_new_epoch_and_nothing_is_lost")],
    69: [(ANSWERS, "s2_69_the_last_epoch_is_followed_by_another_id")],
    70: [WRITTEN_ONCE],
    71: [(ANSWERS, "s2_71_an_unknown_producer_begins_again")],
    # errors
    72: [
        (ANSWERS, "s2_72_a_final_refusal_ends_its_batch_alone"),
        (TRANSACTIONS, "a_failed_record_can_only_be_aborted"),
        (TRANSACTIONS, "a_fenced_producer_is_over"),
    ],
    73: [(TRANSACTIONS, "s2_73_a_user_who_was_refused_may_try_again")],
    74: [(NETWORK, "s2_74_pauses_grow_with_jitter_up_to_a_bound")],
    # compression
    75: [
        (ANSWERS, "s2_75_each_codec_compresses_what_is_read_again"),
        (REAL, "s2_75_compressed_records_are_read_by_others"),
    ],
    76: [(ANSWERS, "s2_76_batches_grow_with_what_compression_saves")],
    # flush and close
    77: [
        (CORE, "s2_34_a_flush_or_a_close_lets_everything_go"),
        (ANSWERS, "s2_59_a_batch_that_is_too_large_goes_in_parts"),
    ],
    78: [
        (REAL, "s2_78_a_close_delivers_and_a_forced_one_does_not"),
        (THREADS, "s2_78_a_close_in_no_time_fails_what_is_left"),
    ],
    79: [(ANSWERS, "s2_79_a_forced_end_fails_what_is_left")],
    80: [NO_POOL],
    # settings
    **{number: [DEFAULTS, REFUSED] for number in range(81, 97)},
    83: [DEFAULTS, (SETTINGS, "a_batch_size_of_0_is_taken_for_1")],
    87: [DEFAULTS, REFUSED, (SETTINGS, "six_in_flight_are_taken_without_idempotence")],
    89: [DEFAULTS, (SETTINGS, "the_delivery_timeout_follows_what_was_given")],
    94: [
        (CORE, "s2_19_a_partitioner_of_its_own_is_asked_and_checked"),
        (CORE, "s2_20_keys_are_left_alone_when_told_to"),
        (CORE, "s2_25_a_slow_broker_gets_fewer_records"),
        (CORE, "s2_27_a_broker_that_takes_nothing_is_left_out"),
    ],
    97: [(SETTINGS, "a_weaker_setting_alone_switches_idempotence_off"), REFUSED],
    # the rest
    98: [(MEASURED, "s2_98_producers_and_consumers_share_a_registry")],
    99: [("tests/unit/storage/test_producing.py", "only_acks_all_needs_enough_replicas")],
    100: [(PAGE, "Do not send such a record again")],
}


@cache
def names_in(path):
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name.removeprefix("test_") for one in ast.walk(tree) if isinstance(one, kinds)}


@cache
def sections():
    """Heading → the numbers of the items that it argues."""
    found, heading = {}, ""
    for line in ADR.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif heading and line.startswith("*S2-"):
            listed = line.split("*")[1].rstrip(".").split(", ")
            found[heading] = {int(one.removeprefix("S2-")) for one in listed}
    return found


def test_the_table_has_every_item_once():
    assert sorted(ITEMS) == list(range(1, 101))


@pytest.mark.parametrize("number", ITEMS)
def test_an_item_is_proven_or_argued(number):
    for proof in ITEMS[number]:
        if isinstance(proof, str):
            assert number in sections()[proof], f"ADR 0044 does not argue S2-{number}"
            continue
        path, name = proof
        if path == PAGE:
            assert name in (ROOT / path).read_text()
        else:
            assert name in names_in(path), f"S2-{number}: {path} has no test_{name}"


def test_what_the_adr_argues_is_in_the_table():
    argued = {(number, heading) for heading, numbers in sections().items() for number in numbers}
    assert argued == {
        (number, proof)
        for number, proofs in ITEMS.items()
        for proof in proofs
        if isinstance(proof, str)
    }
