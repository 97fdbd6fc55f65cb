"""What a broker answers while it has no controller: errors after which clients ask again."""

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.support.transactional import RawTransactions
from tests.support.waiting import eventually
from tests.support.wire import Wire


def test_a_group_is_added_to_a_transaction_once_there_is_a_controller_again() -> None:
    with Cluster(brokers=1) as cluster:
        producer = RawTransactions(cluster, "copy", newer=False)
        assert producer.init() == 0
        request = AddOffsetsToTxnRequest(
            transactional_id="copy", producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="readers"
        )
        with Wire.to_broker(cluster) as wire:
            cluster.split(1, 0)
            answer = wire.ask(request, AddOffsetsToTxnResponse)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "an error after which clients ask again"
            cluster.heal()
            eventually(lambda: wire.ask(request, AddOffsetsToTxnResponse).error_code == 0)
        assert producer.end(producer.end_request(commit=True)) == 0
