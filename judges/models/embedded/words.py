"""English word classes and a list of everyday words, written down by hand: all the model knows."""


def word_set(words: str) -> frozenset[str]:
    """The words of a string."""
    return frozenset(words.split())


ARTICLES = word_set("a an the")
POSSESSIVES = word_set("my your his her its our their whose")
DETERMINERS = ARTICLES | word_set("my your its our their every")
SUBJECTS = word_set("i he she we they")
OBJECTS = word_set("me him us them myself himself herself itself ourselves themselves yourself")
PRONOUNS = (
    SUBJECTS | OBJECTS | word_set("you it her this that these those his hers theirs mine yours")
)
# Words that point back and so need something before them.
POINTING = word_set("he she they it this these those him his her them their its such") | word_set(
    "also however but and so then therefore thus moreover meanwhile instead besides furthermore"
    " otherwise nevertheless nonetheless afterwards later still yet or because"
)
LINKING = word_set(
    "however but so then therefore thus moreover meanwhile instead besides furthermore also"
    " although though because since while after before when once first second third finally next"
    " later earlier consequently nevertheless nonetheless otherwise still yet and as overall"
)
BE = word_set("am is are was were be been being 's 're 'm")
HAVE = word_set("has have had having 've")
DO = word_set("do does did")
MODALS = word_set("will would can could shall should may might must 'll 'd ca wo")
AUXILIARIES = BE | HAVE | DO | MODALS
FINITE = word_set("is are was were has had does did")
NEGATIONS = word_set(
    "not n't no never none nobody nothing neither nor without cannot hardly barely"
)
PREPOSITIONS = word_set(
    "of in to for on at with by from into about over under between during through against among"
    " without within toward towards upon across behind beyond near since until despite off around"
    " above below along beside per via amid like than as out up down after before"
)
# Prepositions that end no English sentence and take no subject pronoun or finite verb.
STRICT = word_set(
    "of at from into during between among toward towards upon within per via amid with"
)
CONJUNCTIONS = word_set("and or but nor")
SUBORDINATORS = word_set(
    "that which who whom whose because although though if when while where whereas whether unless"
    " since until what how why once so as after before than"
)
OTHER_SMALL = word_set(
    "there here very too just only more most much many some any all both each few other another"
    " own same such then now again further once ever even also already yet still quite rather"
    " almost one not s t d ll re ve m o y"
)
FUNCTION = (
    ARTICLES
    | POSSESSIVES
    | DETERMINERS
    | PRONOUNS
    | AUXILIARIES
    | NEGATIONS
    | PREPOSITIONS
    | CONJUNCTIONS
    | SUBORDINATORS
    | OTHER_SMALL
)

# Everyday words carry little of what a text is about.
EVERYDAY = word_set(
    "say said says saying tell told go goes going went gone get gets getting got make makes made"
    " making take takes took taken taking come comes came coming see saw seen know knew known think"
    " thought want wants wanted use used using find found give gave given work working worked call"
    " called try tried ask asked need needed feel felt become became leave left put mean keep kept"
    " let begin began seem seemed help show showed shown hear play run move live believe hold bring"
    " brought happen happened write sit stand lose pay meet include including included continue set"
    " learn change lead understand watch follow stop create speak read allow add spend grow open"
    " walk win offer remember love consider appear buy wait serve die send expect build stay fall"
    " cut reach kill remain suggest raise pass sell require report decide pull return explain hope"
    " develop carry break receive agree support hit produce eat cover catch draw choose cause look"
    " looks looking looked like likes liked turn start started year years time times way ways day"
    " days man men thing things woman women life child children world school state family student"
    " group country problem hand part place case week weeks company system program question number"
    " night point home water room mother area money story fact month months lot right study book"
    " eye job word business issue side kind head house service friend father power hour hours game"
    " line end member law car city community name president team minute minutes idea kid body"
    " information back parent face level office door health person people art history party result"
    " morning reason girl guy moment air teacher force education good new first last long great"
    " little old big high different small large next early young important public bad able best"
    " better sure free true whole clear recent certain likely possible nice fine pretty really well"
    " maybe perhaps actually probably however never always often sometimes usually today tomorrow"
    " yesterday around away ago later soon two three four five six seven eight nine ten hundred"
    " thousand million second third every something anything everything someone anyone everyone"
    " according added told revealed claims claimed shows yes no oh okay ok well hi hello thanks"
    " thank please guess wow interesting cool yeah yep sure fun favorite favourite"
)
VERBS = word_set(
    "say says said tell tells told go goes went gone get gets got make makes made take takes took"
    " taken come comes came see sees saw seen know knows knew known think thinks thought want wants"
    " find finds found give gives gave given keep keeps kept let lets begin begins began show shows"
    " shown run runs ran hold holds held bring brings brought write writes wrote written sit sits"
    " sat stand stands stood lose loses lost pay pays paid meet meets met set sets lead leads led"
    " leave leaves left speak speaks spoke spoken read reads spend spends spent grow grows grew win"
    " wins won send sends sent build builds built stay stays fall falls fell cut cuts hit hits sell"
    " sells sold rise rises rose feel feels felt become becomes became put puts mean means meant"
    " eat eats ate drink drive drives drove fly flew wear wears wore buy buys bought catch caught"
    " draw drew choose chose break broke broken beat beats sing sang teach taught fight fought hear"
    " heard sleep slept swim swam throw threw shoot shot strike struck cost costs quit shut spread"
    " face faces use uses work works call calls try tries ask asks need needs seem seems help helps"
    " play plays move moves live lives believe believes happen happens include includes continue"
    " continues learn learns change changes watch follow follows stop stops add adds love loves"
    " consider expect expects remain remains suggest suggests raise require requires report reports"
    " decide pull return explain explains hope hopes carry receive agree agrees support supports"
    " like likes look looks start starts turn turns reveal reveals claim claims plan plans offer"
    " offers warn warns fear fears wonder wonders enjoy enjoys admit admits deny denies join joins"
    " return returns reach reaches open opens close closes end ends die dies blame blames want"
)
BASES = word_set(
    "say go get make take come see know think want find give keep begin show run hold bring write"
    " sit stand lose pay meet lead leave speak spend grow win send build fall sell rise feel become"
    " eat drive fly wear buy choose break hear need seem help play move live believe work try ask"
)
OPPOSITES = (
    ("increase", "decrease"), ("rise", "fall"), ("rose", "fell"), ("more", "fewer"),
    ("more", "less"), ("higher", "lower"), ("up", "down"), ("win", "lose"), ("won", "lost"),
    ("accept", "refuse"), ("accept", "reject"), ("agree", "refuse"), ("open", "close"),
    ("start", "stop"), ("start", "end"), ("begin", "end"), ("first", "last"), ("before", "after"),
    ("always", "never"), ("with", "without"), ("good", "bad"), ("best", "worst"),
    ("better", "worse"), ("early", "late"), ("earlier", "later"), ("old", "new"), ("buy", "sell"),
    ("love", "hate"), ("allow", "ban"), ("allow", "forbid"), ("approve", "reject"),
    ("support", "oppose"), ("free", "fee"), ("guilty", "innocent"), ("alive", "dead"),
    ("male", "female"), ("man", "woman"), ("husband", "wife"), ("mother", "father"),
    ("brother", "sister"), ("son", "daughter"), ("boy", "girl"), ("north", "south"),
    ("east", "west"), ("left", "right"), ("push", "pull"), ("gain", "lose"), ("double", "halve"),
    ("halve", "treble"), ("most", "least"), ("all", "none"), ("safe", "dangerous"),
    ("cheap", "dear"), ("cheaper", "dearer"), ("hot", "cold"), ("strong", "weak"),
    ("remember", "forget"), ("succeed", "fail"), ("pass", "fail"), ("arrive", "leave"),
    ("deny", "admit"), ("deny", "confirm"), ("profit", "loss"), ("keep", "remove"),
    ("keep", "drop"), ("shorter", "longer"), ("faster", "slower"), ("major", "minor"),
    ("public", "private"), ("morning", "evening"), ("day", "night"), ("weeks", "months"),
    ("months", "years"), ("days", "weeks"),
)  # fmt: skip
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {
    **{word: str(value) for value, word in enumerate(_NUMBERS.split(" "))},
    **{"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100"},
}
ABBREVIATIONS = word_set(
    "mr mrs ms dr prof sr jr st vs etc inc ltd co corp gen sen rep gov no dept fig"
)
RUDE = word_set(
    "stupid idiot idiots dumb moron shut damn hell hate crap shit fuck fucking bitch loser ugly"
    " pathetic disgusting worthless trash garbage kill"
)
POLITE = word_set("please thank thanks sorry welcome glad happy appreciate kindly hope understand")
REFUSING = (
    "i cannot", "i can not", "i can't", "i ca n't", "i'm sorry", "i am sorry", "as an ai",
    "i am unable", "i'm unable", "unable to", "i do n't know", "i don't know", "i 'm not sure",
    "i'm not sure", "not sure what", "no idea", "i do not know",
)  # fmt: skip
