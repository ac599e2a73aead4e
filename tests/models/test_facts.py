"""What is known of the named networks."""

from each import each

from hba.models import MODELS, build_model
from hba.models.facts import model_facts


@each("name", MODELS)
def test_the_number_of_parameters_rounds_to_the_published_one(name: str) -> None:
    facts = model_facts(name)
    assert facts.output_shape == (2, facts.n_classes)
    if facts.published is not None:
        assert round(facts.parameters / 1e6, 1) == facts.published.millions


@each("name", ["wrn-10-1", "resnet-18"])
def test_the_facts_are_those_of_the_network_itself(name: str) -> None:
    facts = model_facts(name)
    network = build_model(name, facts.n_classes, seed=0)
    assert facts.parameters == sum(parameter.numel() for parameter in network.parameters())
    assert facts.input_shape == ((2, 3, 224, 224) if name == "resnet-18" else (2, 3, 32, 32))
