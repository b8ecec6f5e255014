"""The built-in questions: easy facts with one short answer, so that a small model knows most of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """One question and the spellings its answer may have."""

    text: str
    aliases: tuple[str, ...]
    """Lower case; those of more than four letters may be part of a longer word."""


_TEXT = """
What is the capital of France?|paris
What is the capital of Japan?|tokyo
What is the capital of Italy?|rome
What is the capital of Egypt?|cairo
What is the capital of Spain?|madrid
What is the capital of Germany?|berlin
What is the capital of Russia?|moscow
What is the capital of China?|beijing
What is the capital of Greece?|athens
What is the capital of Canada?|ottawa
What is the capital of Australia?|canberra
What is the capital of England?|london
What is the capital of Portugal?|lisbon
What is the capital of Poland?|warsaw
What is the capital of Austria?|vienna
What is the capital of Ireland?|dublin
What is the capital of India?|delhi
What is the capital of Turkey?|ankara
What is the capital of Sweden?|stockholm
What is the capital of Norway?|oslo
What is the capital of Cuba?|havana
What is the capital of Peru?|lima
What is the capital of Kenya?|nairobi
What is the capital of South Korea?|seoul
What is the capital of Thailand?|bangkok
What is the capital of Argentina?|buenos aires
What is the capital of Brazil?|brasilia|brasília
What is the capital of Denmark?|copenhagen
What is the capital of Finland?|helsinki
What is the capital of Hungary?|budapest
How many days are there in a week?|seven|7
How many months are there in a year?|twelve|12
How many hours are there in a day?|twenty four|twenty-four|24
How many minutes are there in an hour?|sixty|60
How many legs does a spider have?|eight|8
How many sides does a triangle have?|three|3
How many continents are there?|seven|7
Who wrote Romeo and Juliet?|shakespeare
Who painted the Mona Lisa?|leonardo|da vinci
Who developed the theory of relativity?|einstein
Who was the first president of the United States?|washington
Who discovered gravity?|newton
Who wrote Hamlet?|shakespeare
Who discovered penicillin?|fleming
Who wrote The Origin of Species?|darwin
Who invented the telephone?|bell
Who was the first person on the Moon?|armstrong
Which planet is closest to the sun?|mercury
What is the largest planet in the solar system?|jupiter
Which planet is known as the red planet?|mars
Which planet is famous for its rings?|saturn
What is the chemical symbol for water?|h2o|h₂o
What is the chemical symbol for gold?|au
What gas do plants absorb from the air?|carbon dioxide|co2
What gas do humans need to breathe?|oxygen
At what temperature in Celsius does water boil?|100|one hundred
At what temperature in Celsius does water freeze?|0|zero
What color do you get by mixing blue and yellow?|green
What is the largest ocean on Earth?|pacific
What is the largest continent?|asia
What is the longest river in Africa?|nile
What is the highest mountain in the world?|everest
What is the currency of the United Kingdom?|pound
What is the currency of Japan?|yen
Which animal is known as the king of the jungle?|lion
What do bees make?|honey
What is frozen water called?|ice
Which month comes after April?|may
Which day comes after Monday?|tuesday
Which metal has the chemical symbol Fe?|iron
What organ pumps blood through the body?|heart
In which country is the Eiffel Tower?|france
In which country are the pyramids of Giza?|egypt
In which country is the Great Wall?|china
What is the opposite of hot?|cold
What is the opposite of up?|down
What is the opposite of big?|small
What language is spoken in Brazil?|portuguese
What language is spoken in France?|french
What language is spoken in England?|english
What is the largest animal in the world?|blue whale|whale
What is the fastest land animal?|cheetah
What is the hardest natural substance?|diamond
What is two plus two?|four|4
What is ten divided by two?|five|5
What force pulls objects toward the Earth?|gravity
What star is at the center of our solar system?|sun
What is the name of our galaxy?|milky way
What do caterpillars turn into?|butterfl
What color is the sky on a clear day?|blue
What color is grass?|green
What color is a banana?|yellow
What do cows produce that people drink?|milk
What is the main language spoken in Mexico?|spanish
Which ocean is between Europe and America?|atlantic
What is the process by which plants make food?|photosynthesis
What is the young of a cat called?|kitten
What is the young of a dog called?|pupp
What is the capital of Belgium?|brussels
What is the capital of Mexico?|mexico city
Which season comes after winter?|spring
Which planet do humans live on?|earth
"""
"""One a line: the question, then its aliases, between bars."""


def _parse(line: str) -> Question:
    text, *aliases = line.split("|")
    return Question(text, tuple(aliases))


QUESTIONS = tuple(_parse(line) for line in _TEXT.strip().splitlines())
