"""Countries by name, by demonym and by some of their parts: enough to say which country a sentence speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# country: demonyms; other names (a country may have several lines)
_TABLE = """
United States: American; U.S.; USA; US; United States of America; America
United Kingdom: British, English, Scottish, Welsh, Northern Irish; UK; U.K.; Britain; Great Britain
United Kingdom: British; England; Scotland; Wales; Northern Ireland
Canada: Canadian, Canadien; Quebec; Ontario; Saskatchewan; Manitoba; Alberta
Canada: Canadian; British Columbia; Nova Scotia; New Brunswick; Newfoundland; Yukon
Australia: Australian; Queensland; New South Wales; Tasmania; South Australia; Western Australia
New Zealand: New Zealand, Kiwi;
Ireland: Irish; Republic of Ireland
France: French;
Germany: German, West German, East German; West Germany; Prussia; Bavaria; Saxony
Italy: Italian; Kingdom of Italy; Sicily; Tuscany
Spain: Spanish, Catalan, Basque; Catalonia; Andalusia
Portugal: Portuguese;
Netherlands: Dutch; The Netherlands; Holland
Belgium: Belgian, Flemish; Flanders
Luxembourg: Luxembourgish, Luxembourgian;
Switzerland: Swiss;
Austria: Austrian; Austria-Hungary
Hungary: Hungarian;
Poland: Polish;
Czech Republic: Czech, Czechoslovak, Bohemian; Czechoslovakia; Bohemia; Moravia
Slovakia: Slovak;
Slovenia: Slovene, Slovenian;
Croatia: Croatian, Croat;
Serbia: Serbian, Serb;
Bosnia and Herzegovina: Bosnian; Bosnia
Montenegro: Montenegrin;
North Macedonia: Macedonian; Macedonia
Yugoslavia: Yugoslav, Yugoslavian;
Albania: Albanian;
Kosovo: Kosovar;
Greece: Greek;
Bulgaria: Bulgarian;
Romania: Romanian; Transylvania
Moldova: Moldovan;
Ukraine: Ukrainian;
Belarus: Belarusian;
Russia: Russian, Soviet; Soviet Union; USSR; Russian Empire
Estonia: Estonian;
Latvia: Latvian;
Lithuania: Lithuanian;
Finland: Finnish;
Sweden: Swedish;
Norway: Norwegian;
Denmark: Danish;
Iceland: Icelandic;
Greenland: Greenlandic;
Turkey: Turkish, Ottoman; Ottoman Empire
Cyprus: Cypriot;
Malta: Maltese;
Georgia (country): Georgian;
Armenia: Armenian;
Azerbaijan: Azerbaijani;
Kazakhstan: Kazakh, Kazakhstani;
Uzbekistan: Uzbek, Uzbekistani;
Turkmenistan: Turkmen;
Kyrgyzstan: Kyrgyz;
Tajikistan: Tajik;
Afghanistan: Afghan;
Pakistan: Pakistani;
India: Indian, Bengali, Tamil, Telugu, Malayalam, Kannada, Hindi, Marathi, Gujarati, Punjabi; Tamil Nadu
India: Indian; Kerala; Karnataka; Maharashtra; West Bengal; Uttar Pradesh; Andhra Pradesh; Rajasthan; Gujarat; Bihar
Bangladesh: Bangladeshi;
Nepal: Nepalese, Nepali;
Sri Lanka: Sri Lankan, Sinhalese; Ceylon
Bhutan: Bhutanese;
Maldives: Maldivian;
China: Chinese; People's Republic of China
Hong Kong: Hong Kong;
Taiwan: Taiwanese;
Mongolia: Mongolian;
Japan: Japanese;
South Korea: South Korean, Korean; Korea
North Korea: North Korean;
Vietnam: Vietnamese;
Laos: Laotian;
Cambodia: Cambodian;
Thailand: Thai; Siam
Myanmar: Burmese; Burma
Malaysia: Malaysian, Malay;
Singapore: Singaporean;
Indonesia: Indonesian;
Philippines: Filipino, Philippine, Filipina;
Iran: Iranian, Persian; Persia; Islamic Republic of Iran
Iraq: Iraqi;
Syria: Syrian;
Lebanon: Lebanese;
Israel: Israeli;
Palestine: Palestinian;
Jordan: Jordanian;
Saudi Arabia: Saudi, Saudi Arabian;
Yemen: Yemeni;
Oman: Omani;
United Arab Emirates: Emirati;
Qatar: Qatari;
Kuwait: Kuwaiti;
Bahrain: Bahraini;
Egypt: Egyptian;
Libya: Libyan;
Tunisia: Tunisian;
Algeria: Algerian;
Morocco: Moroccan;
Sudan: Sudanese;
Ethiopia: Ethiopian;
Eritrea: Eritrean;
Somalia: Somali;
Kenya: Kenyan;
Uganda: Ugandan;
Tanzania: Tanzanian;
Rwanda: Rwandan;
Burundi: Burundian;
Democratic Republic of the Congo: Congolese; Congo; Zaire
Angola: Angolan;
Zambia: Zambian;
Zimbabwe: Zimbabwean; Rhodesia
Mozambique: Mozambican;
Malawi: Malawian;
Madagascar: Malagasy;
Namibia: Namibian;
Botswana: Botswanan, Motswana;
South Africa: South African;
Nigeria: Nigerian;
Ghana: Ghanaian;
Ivory Coast: Ivorian; Côte d'Ivoire
Senegal: Senegalese;
Gambia: Gambian; The Gambia
Mali: Malian;
Cameroon: Cameroonian;
Gabon: Gabonese;
Liberia: Liberian;
Sierra Leone: Sierra Leonean;
Mexico: Mexican;
Guatemala: Guatemalan;
Honduras: Honduran;
El Salvador: Salvadoran;
Nicaragua: Nicaraguan;
Costa Rica: Costa Rican;
Panama: Panamanian;
Cuba: Cuban;
Jamaica: Jamaican;
Haiti: Haitian;
Dominican Republic: Dominican;
Puerto Rico: Puerto Rican;
Trinidad and Tobago: Trinidadian; Trinidad
Barbados: Barbadian;
Colombia: Colombian;
Venezuela: Venezuelan;
Ecuador: Ecuadorian;
Peru: Peruvian;
Bolivia: Bolivian;
Chile: Chilean;
Argentina: Argentine, Argentinian;
Uruguay: Uruguayan;
Paraguay: Paraguayan;
Brazil: Brazilian;
Fiji: Fijian;
Samoa: Samoan;
Tonga: Tongan;
Papua New Guinea: Papua New Guinean;
"""
_STATES = (
    "Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|Florida|Hawaii|Idaho|Illinois|Indiana|Iowa|"
    "Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota|Mississippi|Missouri|Montana|Nebraska|"
    "Nevada|New Hampshire|New Jersey|New Mexico|New York|North Carolina|North Dakota|Ohio|Oklahoma|Oregon|Pennsylvania|"
    "Rhode Island|South Carolina|South Dakota|Tennessee|Texas|Utah|Vermont|Virginia|Washington|West Virginia|Wisconsin|"
    "Wyoming|Hollywood"
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A country as a text mentions it. ``demonym``: by an adjective (``Finnish``)."""

    country: str
    text: str
    start: int
    demonym: bool


def mentions(text: str) -> list[Mention]:
    """Every mention of a country, in order."""
    pattern, known = _index()
    found = []
    for match in pattern.finditer(text):
        country, demonym = known[match.group()]
        found.append(Mention(country, match.group(), match.start(), demonym))
    return found


def is_demonym(text: str) -> bool:
    """Whether a text is nothing but demonyms (``American``, ``South Korean``, ``Anglo-Irish`` is not)."""
    known = _index()[1]
    return text in known and known[text][1]


def is_country(text: str) -> bool:
    return text in _index()[1]


@cache
def _index() -> tuple[re.Pattern[str], dict[str, tuple[str, bool]]]:
    known: dict[str, tuple[str, bool]] = {name: ("United States", False) for name in _STATES.split("|")}
    for line in _TABLE.strip().splitlines():
        country, rest = line.split(":", 1)
        demonyms, _, others = rest.partition(";")
        known[country.split(" (")[0]] = (country, False)
        for other in others.split(";"):
            if other.strip():
                known[other.strip()] = (country, False)
        for demonym in demonyms.split(","):
            known[demonym.strip()] = (country, True)
    names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{names})(?![\w])"), known
